"""Standard streams that are closed or take nothing, files on a full disk, and pipes whose reader is gone."""

import os
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from monedula.testing import Broker

from tests.cli.processes import COMMAND, environment

ROWS = 3000
CLOSED_INPUTS = {
    "lines": "produce orders",
    "json": "produce orders -f json",
    "arrow": "produce orders -f arrow",
    "parquet": "produce orders -f parquet",
    "encoded": "produce orders --encode json --schema 'id bigint'",
    "offsets": "groups import - --group etl",
    "plan": "reassignments start - --yes",
    "password": "users set anna --password-file -",
    "settings": "configs set topic orders --file -",
    "schema": "schemas register orders-value - -X schema.registry.url=http://127.0.0.1:1",
    "question": "topics delete orders",
    "password asked for": "users set anna",
}
LINES = (
    "topics list",
    "completion bash",
    "topics --help",
    "topics describe orders",
    "topics list --json",
    "groups list",
    "cluster describe",
    "brokers list",
    "configs describe topic orders",
    "configs list",
    "log-dirs list",
    "reassignments plan --topic orders --brokers 1 -o -",
    "schema infer documents",
    "topics offsets orders",
    "--help",
    "--version",
)
FORMATS = ("text", "json", "csv", "arrow", "arrow-file", "parquet", "%s\\n")
SUFFIXES = ("txt", "json", "csv", "arrows", "arrow", "parquet")


def few(cases: Iterable[str], *usual: str) -> list[Any]:
    """All cases, of which `make test` runs those that are named."""
    return [each if each in usual else pytest.param(each, marks=pytest.mark.thorough) for each in cases]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Broker]:
    """With `orders`, whose records take a megabyte that cannot be compressed, `documents`, and a group."""
    with Broker() as broker:
        broker.create_topic("orders", 1)
        broker.append("orders", [(f"key-{row}", os.urandom(160).hex()) for row in range(ROWS)])
        broker.create_topic("documents", 1)
        broker.append("documents", ['{"id": 1}'])
        # What lists groups and configs has something to write.
        shell(broker, "monedula consume orders -g listed -n 1 --timeout 10")
        assert shell(broker, "monedula configs set topic orders retention.ms=86400000").returncode == 0
        yield broker


def shell(cluster: Broker, line: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a line of the shell, in which `monedula` is the command."""
    command = " ".join(COMMAND)
    return subprocess.run(
        ["sh", "-c", f'monedula() {{ {command} "$@"; }}\n{line}'],
        env=environment(cluster.bootstrap_servers),
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("name", few(CLOSED_INPUTS, "json", "offsets", "settings", "question"))
def test_a_standard_input_that_is_closed_is_said_in_one_line(cluster: Broker, name: str) -> None:
    done = shell(cluster, f"monedula {CLOSED_INPUTS[name]} <&-")
    told = done.stderr.decode()
    assert done.returncode in (1, 2)
    assert told.count("\n") == 1, told
    asked = name in ("question", "password asked for")
    assert ("nobody can be asked" if asked else "standard input is closed") in told
    assert "Traceback" not in told


@pytest.mark.parametrize("line", few(LINES, "topics list", "topics --help"))
def test_a_standard_output_that_is_closed_is_said_in_one_line(cluster: Broker, line: str) -> None:
    done = shell(cluster, f"monedula {line} >&-")
    assert done.returncode == 1
    assert done.stderr.endswith(b": standard output is closed\n")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("line", ["consume orders -n 1", "topics list", "topics list --nonsense", "consume none"])
@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "<&- 2>&-"])
def test_a_standard_error_that_takes_nothing_changes_no_exit_code(cluster: Broker, line: str, redirection: str) -> None:
    usual, without = (shell(cluster, f"monedula {line} {each}") for each in ("", redirection))
    assert (without.returncode, without.stdout) == (usual.returncode, usual.stdout)


@pytest.mark.parametrize("line", few(LINES, "topics list", "topics --help"))
def test_a_standard_output_that_is_full_is_named(cluster: Broker, line: str) -> None:
    done = shell(cluster, f"monedula {line} >/dev/full")
    assert done.returncode == 1
    assert done.stderr.endswith(b": standard output: No space left on device\n")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("format_", few(FORMATS, "json", "parquet"))
def test_records_into_a_full_output_name_it(cluster: Broker, format_: str) -> None:
    done = shell(cluster, f"monedula consume orders -f '{format_}' >/dev/full")
    assert (done.returncode, done.stderr) == (1, b"monedula consume: standard output: No space left on device\n")


@pytest.mark.parametrize("suffix", few(SUFFIXES, "csv", "parquet"))
def test_a_file_that_does_not_fit_is_named_and_removed(cluster: Broker, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"orders.{suffix}"
    done = shell(cluster, f"ulimit -f 200; monedula consume orders -o {file}")
    told = f"monedula consume: {file}: File too large; the incomplete file is removed\n"
    assert (done.returncode, done.stderr.decode()) == (1, told)
    assert not file.exists()


def test_a_device_that_is_full_is_named_and_stays(cluster: Broker) -> None:
    done = shell(cluster, "monedula consume orders -o /dev/full -f json")
    assert (done.returncode, done.stderr) == (1, b"monedula consume: /dev/full: No space left on device\n")
    assert Path("/dev/full").exists()


@pytest.mark.parametrize("options", ["--group keeps", "--follow"])
@pytest.mark.parametrize("suffix", few(("txt", "json", "csv", "arrows"), "json"))
def test_a_file_whose_records_are_not_read_again_keeps_those_that_fit(
    broker: Broker, tmp_path: Path, suffix: str, options: str
) -> None:
    broker.create_topic("orders", 1)
    broker.append("orders", [(None, f"small-{row}") for row in range(5)])
    file = tmp_path / f"orders.{suffix}"
    command = f"ulimit -f 200; exec {' '.join(COMMAND)} consume orders {options} -o {file}"
    with subprocess.Popen(
        ["sh", "-c", command], env=environment(broker.bootstrap_servers), stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        try:
            deadline = time.monotonic() + 60
            while not file.exists() or b"small-4" not in file.read_bytes():
                assert time.monotonic() < deadline
                time.sleep(0.02)
            whole = file.read_bytes()
            broker.append("orders", [(None, os.urandom(500).hex()) for _ in range(500)])
            told = process.stderr.read().decode()
        finally:
            process.kill()
        assert process.wait(60) == 1
    assert told == f"monedula consume: {file}: File too large; it ends with the last records that were written\n"
    assert file.read_bytes() == whole


@pytest.mark.parametrize(
    "line",
    ["groups export etl -o {file}", "reassignments plan --topic orders --brokers 1 -o {file}"],
)
def test_other_files_that_do_not_fit_are_named_and_removed(cluster: Broker, tmp_path: Path, line: str) -> None:
    file = tmp_path / "file.json"
    shell(cluster, "monedula consume orders -g etl -n 1 --timeout 10")
    done = shell(cluster, f"ulimit -f 0; monedula {line.format(file=file)}")
    assert done.returncode == 1
    assert f"{file}: File too large\n" in done.stderr.decode()
    assert not file.exists()


@pytest.mark.parametrize(
    "line",
    few([*LINES, *(f"consume orders -f '{each}'" for each in FORMATS)], "topics list", "consume orders -f 'json'"),
)
def test_a_reader_that_is_gone_ends_a_command_without_a_word(cluster: Broker, line: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as output:
        done = subprocess.run(
            ["sh", "-c", f"{' '.join(COMMAND)} {line}"],
            env=environment(cluster.bootstrap_servers),
            stdout=output,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    # What is no command, typer ends by itself.
    assert (done.returncode, done.stderr) == (1 if line.endswith(("--help", "--version")) else 141, b"")
