"""`monedula broker` and `python -m monedula`."""

import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import monedula
import pytest
from monedula.testing import Broker

COMMAND = [sys.executable, "-m", "monedula"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_it_says_when_it_is_ready_and_ends_on_a_signal(end: signal.Signals) -> None:
    options = [
        "--port",
        "0",
        "--nodes",
        "2",
        "--topic",
        "orders:3",
        "--setting",
        "num.partitions=4",
        "--control-port",
        "0",
    ]
    with subprocess.Popen([*COMMAND, "broker", *options], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            servers = process.stdout.readline().strip().removeprefix("bootstrap.servers=")
            assert len(servers.split(",")) == 2
            assert sum(batch.num_rows for batch in monedula.read({"bootstrap.servers": servers}, "orders")) == 0
            host, port = process.stdout.readline().strip().removeprefix("control.address=").split(":")
            with socket.create_connection((host, int(port)), timeout=30) as control, control.makefile("rw") as lines:
                lines.write('{"command": "create_topic", "topic": "more"}\n')
                lines.flush()
                assert '"partitions":4' in lines.readline()
        finally:
            process.send_signal(end)
        assert process.wait(30) == 0


def test_a_signal_ends_it_whatever_it_does_just_then() -> None:
    """A handler that took a lock of the loop that it interrupts hung in three of ten."""
    program = """
import sys
from monedula.cli import broker, main
broker._LOOK = 0.0
sys.argv = ["monedula", "broker", "--port", "0"]
main()
"""
    with ExitStack() as ended:
        started = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) for _ in range(12)]
        for process in started:
            ended.callback(process.wait)
            ended.callback(process.kill)
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline()
            process.send_signal(signal.SIGINT)
        assert [process.wait(60) for process in started] == [0] * len(started)


def test_nodes_have_the_ids_racks_and_addresses_that_were_given() -> None:
    options = ["--port", "0", "--nodes", "3", "--first-node-id", "0", "--rack", "a", "--rack", "", "--rack", "c"]
    command = [*COMMAND, "broker", *options, "--host", "localhost", "--topic", "orders:3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            servers = process.stdout.readline().strip().removeprefix("bootstrap.servers=")
            with monedula.Admin({"bootstrap.servers": servers}) as admin:
                nodes = admin.describe_cluster().nodes
                assert [(node.id, node.rack) for node in nodes] == [(0, "a"), (1, None), (2, "c")]
                # The broker advertises what it printed: the name may resolve to addresses where it does not listen.
                hosts = [f"[{node.host}]" if ":" in node.host else node.host for node in nodes]
                assert [f"{host}:{node.port}" for host, node in zip(hosts, nodes, strict=True)] == servers.split(",")
            assert sum(batch.num_rows for batch in monedula.read({"bootstrap.servers": servers}, "orders")) == 0
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_what_was_taken_out_of_a_data_directory_is_reported(tmp_path: Path) -> None:
    with Broker(topics=["orders"], data_dir=tmp_path) as broker:
        broker.append("orders", ["a"])
    (tmp_path / "broker.json").unlink()
    done = run("broker", "--port", "0", "--data-dir", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, ""), done
    assert "broker.json: it is missing, and there are topics: restore it from a copy, or delete all of" in done.stderr


def test_what_is_wrong_is_one_line() -> None:
    with Broker() as broker:
        port = broker.bootstrap_servers.split(":")[1]
        for options, code, problem in [
            (["--port", port], 1, f"cannot listen on 127.0.0.1:{port}"),
            (["--port", "0", "--topic", "orders:many"], 2, "a topic is written name:partitions"),
            (["--port", "0", "--setting", "num.partition=1"], 2, "perhaps num.partitions is meant"),
            (["--port", "0", "--setting", "x"], 2, "a setting is written key=value"),
            (["--port", "0", "--rack", "a", "--rack", "b"], 2, "racks: 2 racks for 1 nodes"),
            (["--port", "0", "--first-node-id", "-1"], 2, "first_node_id=-1: expected the id of a node"),
        ]:
            done = run("broker", *options)
            assert (done.returncode, done.stdout) == (code, ""), done
            assert done.stderr.startswith("monedula broker: ")
            assert done.stderr.count("\n") == 1
            assert problem in done.stderr


def test_the_version_is_printed() -> None:
    assert run("--version").stdout == f"monedula {monedula.__version__}\n"


def test_without_typer_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['typer'] = None; from monedula.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, 'the command line needs typer: pip install "monedula[cli]"\n')
