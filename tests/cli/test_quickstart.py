"""`monedula quickstart` and `monedula bench`."""

import json
import signal
from collections.abc import Callable

import monedula
from monedula.testing import Broker

from tests.cli.processes import Terminal, output, problem, running


def test_the_quickstart_shows_what_was_written_and_stays() -> None:
    with running("quickstart", "--port", "0") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline().decode()
        servers = first.split()[4].rstrip(",")
        shown = []
        while "Ctrl-C" not in (line := process.stdout.readline().decode()):
            shown.append(line)
        assert sum("customer-" in line for line in shown) == 10
        assert sum(batch.num_rows for batch in monedula.read({"bootstrap.servers": servers}, "orders")) == 10
        assert len(output("consume", "orders", servers=servers).splitlines()) == 10
        process.send_signal(signal.SIGINT)
        assert (process.wait(60), process.stderr.read()) == (130, b"")


def test_the_quickstart_takes_another_port_if_its_own_is_in_use(broker: Broker) -> None:
    port = broker.bootstrap_servers.split(":")[1]
    with running("quickstart", "--port", port, "--once") as process:
        written, told = process.communicate(timeout=60)
        assert process.returncode == 0
        assert b"10 records are written" in written
        assert b"another port is taken" in told


def test_the_bench_measures_each_way_and_leaves_nothing(broker: Broker) -> None:
    servers = broker.bootstrap_servers
    text = output("bench", "-n", "5000", "--singles", "5", "--size", "20", "-z", "lz4", "--json", servers=servers)
    rows = {row["what"]: row for row in map(json.loads, text.splitlines())}
    assert list(rows) == ["send", "send_batch", "send, one at a time", "consume"]
    assert rows["consume"]["records"] == 5000 + 5000 + 5 + 1
    assert all(row["records_per_second"] > 0 for row in rows.values())
    assert rows["send, one at a time"]["p99_ms"] >= rows["send, one at a time"]["p50_ms"] > 0
    assert output("topics", "list", servers=servers) == ""
    assert "contradict" in problem("bench", "--embedded", "-b", servers, code=2)


def test_the_bench_can_bring_its_broker(terminal: Callable[..., Terminal]) -> None:
    screen = terminal("bench", "--embedded", "-n", "2000", "--singles", "0")
    assert screen.end() == 0
    assert "records per second" in " ".join(screen.text.split())
