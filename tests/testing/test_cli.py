"""`monedula broker` and `python -m monedula`."""

import signal
import socket
import subprocess
import sys

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


def test_what_is_wrong_is_one_line() -> None:
    with Broker() as broker:
        port = broker.bootstrap_servers.split(":")[1]
        for options, code, problem in [
            (["--port", port], 1, f"cannot listen on 127.0.0.1:{port}"),
            (["--port", "0", "--topic", "orders:many"], 2, "a topic is written name:partitions"),
            (["--port", "0", "--setting", "num.partition=1"], 2, "perhaps num.partitions is meant"),
            (["--port", "0", "--setting", "x"], 2, "a setting is written key=value"),
        ]:
            done = run("broker", *options)
            assert (done.returncode, done.stdout) == (code, ""), done
            assert done.stderr.startswith("monedula broker: ")
            assert done.stderr.count("\n") == 1
            assert problem in done.stderr


def test_the_version_is_told() -> None:
    assert run("--version").stdout == f"monedula {monedula.__version__}\n"


def test_without_typer_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['typer'] = None; from monedula.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, 'the command line needs typer: pip install "monedula[cli]"\n')
