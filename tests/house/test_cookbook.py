"""docs/cookbook.md: each recipe runs as it stands, and does what its text says."""

import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import monedula
import pyarrow
import pytest
from monedula.testing import Broker

GUIDE = Path(__file__).resolve().parents[2] / "docs/cookbook.md"
ORDERS = [
    b'{"customer": "anna", "amount": 1.5}',
    b'{"customer": "ben"}',
    b'{"customer": "anna", "amount": 2, "more": 1}',
]


def recipes(title: str) -> list[str]:
    section = GUIDE.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)


def run(source: str, broker: Broker, **names: object) -> dict[str, object]:
    found = {"settings": settings(broker), **names}
    exec(compile(source, str(GUIDE), "exec"), found)
    return found


def settings(broker: Broker) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap_servers}


def rows(broker: Broker, topic: str, *columns: str) -> list[tuple[object, ...]]:
    stored = pyarrow.table(monedula.read(settings(broker), topic, columns=columns, headers="headers" in columns))
    return [tuple(row.values()) for row in stored.to_pylist()]


@pytest.fixture
def broker() -> Iterator[Broker]:
    topics = {"orders": 2, "customers": 1, "totals": 1, "orders.dead": 1}
    with Broker(topics=topics, settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


def test_json_becomes_columns(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    broker.append("orders", ORDERS)
    by_polars, by_duckdb = recipes("JSON into columns")
    orders = run(by_polars, broker)["orders"]
    assert orders.columns == ["timestamp", "customer", "amount"]  # type: ignore[attr-defined]
    assert "3.5" in capsys.readouterr().out
    broker.append("orders", ["no JSON"])
    run(by_duckdb, broker)
    assert re.search(r"anna.*2", capsys.readouterr().out)


def test_columns_become_json(broker: Broker) -> None:
    run(recipes("Columns into JSON")[0], broker)
    stored = sorted(rows(broker, "totals", "key", "value"))
    assert stored == [(b"anna", b'{"customer":"anna","total":12.5}'), (b"ben", b'{"customer":"ben","total":3.0}')]


def test_yesterday_is_read_alone(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    from datetime import datetime, timedelta

    now = datetime.now().astimezone()
    noon = now.replace(hour=12)
    broker.append("orders", ["a"], timestamps=noon - timedelta(days=2))
    broker.append("orders", ["b", "c"], timestamps=noon - timedelta(days=1))
    # Not at noon: in the morning that is later than a broker takes.
    broker.append("orders", ["d"], timestamps=now)
    run(recipes("Yesterday's records")[0], broker)
    assert capsys.readouterr().out.strip() == "2"


def test_the_latest_record_of_each_key_is_the_state(broker: Broker) -> None:
    broker.append("customers", [("anna", "1"), ("ben", "2"), ("anna", "3"), ("ben", None)])
    state = run(recipes("The latest record of each key")[0], broker)["state"]
    assert state.select("key", "value").rows() == [(b"anna", b"3")]  # type: ignore[attr-defined]


def test_a_topic_is_copied(broker: Broker) -> None:
    broker.append("orders", [("a", "1"), (None, None)], timestamps=1_700_000_000_000, headers=[("name", b"value")])
    with Broker(topics=["orders:1"]) as other:
        run(recipes("Copying a topic")[0], broker, other_settings=settings(other))
        columns = ("key", "value", "headers", "timestamp")
        assert sorted(map(str, rows(other, "orders", *columns))) == sorted(map(str, rows(broker, "orders", *columns)))


def test_each_night_reads_what_came_since_the_last(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    (job,) = recipes("A nightly job")
    printed = []
    for records in (["a", "b"], [], ["c"]):
        broker.append("orders", records)
        run(job, broker)
        printed.append(capsys.readouterr().out.strip())
    assert printed == ["2 records", "0 records", "1 records"]


def test_a_record_that_fails_three_times_is_a_dead_letter(broker: Broker) -> None:
    handled: list[bytes] = []

    def handle(record: monedula.Record) -> None:
        assert record.value is not None
        handled.append(record.value)
        if record.value == b"bad":
            raise ValueError("bad value")

    broker.append("orders", [("k", "good"), ("k", "bad"), ("k", "better")], headers=[("name", b"value")])
    (source,) = recipes("Retries and dead letters")
    run(source.replace("timeout=10.0", "timeout=1.0"), broker, handle=handle)
    assert handled == [b"good", b"bad", b"bad", b"bad", b"better"]
    headers = [("name", b"value"), ("origin", b"orders-0@1"), ("error", b"ValueError('bad value')")]
    ((key, value, found),) = rows(broker, "orders.dead", "key", "value", "headers")
    assert (key, value) == (b"k", b"bad")
    assert [tuple(header.values()) for header in found] == headers  # type: ignore[attr-defined]
    assert broker.group("billing").offsets["orders", 0] == 3


def test_sigterm_ends_the_service_which_commits_and_leaves(broker: Broker) -> None:
    broker.append("orders", ["a", "b"])
    (source,) = recipes("Ending on SIGTERM")
    prelude = f"settings = {settings(broker)}\ndef handle(batch): print('handled', batch.num_rows, flush=True)\n"
    with subprocess.Popen([sys.executable, "-c", prelude + source], stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        assert service.stdout.readline() == "handled 2\n"
        service.send_signal(signal.SIGTERM)
        assert service.stdout.read() == "left the group\n"
        assert service.wait(timeout=30) == 0
    group = broker.group("service")
    assert not group.members
    assert group.offsets["orders", 0] == 2


def test_the_health_endpoint_answers(broker: Broker) -> None:
    found = run(recipes("A health endpoint")[0], broker)
    consumer, server = found["consumer"], found["server"]
    assert isinstance(consumer, monedula.Consumer)
    with consumer:
        consumer.poll(timeout=5.0)
        port = server.server_address[1]  # type: ignore[attr-defined]
        for path in ("live", "ready"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
                assert answer.read() == b'{"ok": true, "last_error": null, "unknown_topics": [], "lag": 0}'
        consumer.subscribe("ordres")
        while not consumer.health()["group"]["unknown_topics"]:
            consumer.poll(timeout=0.1)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/live", timeout=10) as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError, match="503") as raised:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=10)
        with raised.value as refused:
            assert b'"unknown_topics": ["ordres"]' in refused.read()
        server.shutdown()  # type: ignore[attr-defined]
        server.server_close()  # type: ignore[attr-defined]


@contextmanager
def fastapi_service(broker: Broker) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """The recipe as a process, and the URL of its endpoints. Of FastAPI it has a stand-in."""
    prelude = f"""
import asyncio, sys
from tests.house import lifespan_server
sys.modules.update({{"fastapi": lifespan_server, "fastapi.responses": lifespan_server}})
settings = {settings(broker)}
async def handle(record):
    print("handles", record.value.decode(), flush=True)
    if record.value == b"hangs":
        await asyncio.sleep(600)
"""
    (source,) = recipes("FastAPI")
    command = [sys.executable, "-c", f"{prelude}\n{source}\nasyncio.run(app.serve())"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=GUIDE.parents[1]
    ) as service:
        assert service.stdout is not None
        try:
            yield service, f"http://127.0.0.1:{int(service.stdout.readline())}"
        finally:
            service.kill()


@pytest.mark.parametrize("trouble", ["nothing", "a handler that hangs", "a broker that is silent"])
def test_a_service_with_fastapi_answers_and_ends_within_ten_seconds(broker: Broker, trouble: str) -> None:
    with fastapi_service(broker) as (service, url):
        assert service.stdout is not None
        broker.append("orders", ["a"])
        assert service.stdout.readline() == "handles a\n"
        with urllib.request.urlopen(f"{url}/live", timeout=10) as answer:
            assert json.load(answer) == {"ok": True}
        with urllib.request.urlopen(f"{url}/ready", timeout=10) as answer:
            told = json.load(answer)
        assert told["ok"]
        assert told["lag"].keys() == told["health"]["partitions"].keys() == {"orders-0", "orders-1"}
        if trouble == "a handler that hangs":
            broker.append("orders", ["hangs"])
            assert service.stdout.readline() == "handles hangs\n"
        elif trouble == "a broker that is silent":
            broker.fault(black_hole="requests")
        began = time.monotonic()
        service.send_signal(signal.SIGTERM)
        assert service.stdout.read() == ("" if trouble == "a broker that is silent" else "left the group\n")
        assert service.stderr is not None
        # What cannot be committed is an error at the end of the lifespan.
        assert ("CommitFailedError" in service.stderr.read()) == (trouble == "a broker that is silent")
        service.wait(timeout=30)
        # The server has had no requests to wait for.
        assert time.monotonic() - began < 9.5
    if trouble != "a broker that is silent":
        assert service.returncode == 0
        assert not broker.group("service").members
        assert broker.group("service").offsets["orders", 0] == 1


def test_the_tests_pass(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(recipes("Testing with pytest")[0])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert "2 passed" in ran.stdout, ran.stdout


@pytest.mark.parametrize("bar", ["tqdm", "rich"])
def test_a_bar_shows_how_far_a_read_is(broker: Broker, capfd: pytest.CaptureFixture[str], bar: str) -> None:
    for partition in range(2):
        broker.append("orders", ORDERS, partition=partition)
    by_tqdm, by_rich = recipes("A progress bar")
    found = run(by_tqdm if bar == "tqdm" else by_rich, broker)
    assert found["table"].num_rows == 6  # type: ignore[attr-defined]
    out, err = capfd.readouterr()
    assert ("6.00/6.00" in err) if bar == "tqdm" else ("100%" in out)
