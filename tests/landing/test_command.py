"""`monedula land` and `land check`, as processes."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import monedula
import polars
import pytest

from tests.groups.ground import Ground
from tests.landing.orders import ORDER, Orders, landed

deltalake = pytest.importorskip("deltalake", reason="the extra delta is not installed")


def start(orders: Orders, *words: str, stderr: int = subprocess.PIPE) -> "subprocess.Popen[str]":
    variables = {
        **os.environ,
        "MONEDULA_BOOTSTRAP_SERVERS": orders.settings["bootstrap.servers"],
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-m", "monedula", "land", *words]
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=stderr, text=True)


def run(orders: Orders, *words: str, code: int = 0) -> tuple[str, str]:
    with start(orders, *words) as process:
        out, problems = process.communicate(timeout=60)
    assert process.returncode == code, problems
    return out, problems


def test_a_topic_lands_and_the_check_says_so(orders: Orders, tmp_path: Path) -> None:
    path = str(tmp_path / "lake")
    _, said = run(orders, orders.topic, path, "--value", "json", "--schema", "id bigint", "--until", "now")
    assert said == "300 rows: 1 file, 1 commit\n"
    out, _ = run(orders, "check", path, "--topic", orders.topic)
    assert out == "".join(f"{partition}\t100\t0\t100\t\t\t\n" for partition in range(3))
    deltalake.write_deltalake(path, deltalake.DeltaTable(path).to_pyarrow_table().slice(0, 1), mode="append")
    out, said = run(orders, "check", path, "--topic", orders.topic, "--json", code=1)
    assert sum(1 for line in out.splitlines() if json.loads(line)["repeated"]) == 1
    assert "the table has records more than once" in said


def test_rows_of_keys_replace_each_other(orders: Orders, tmp_path: Path) -> None:
    path = str(tmp_path / "lake")
    words = ("--value", "json", "--schema", "id bigint, amount double", "--until", "now", "--upsert", "key")
    run(orders, orders.topic, path, *words)
    orders.count = 0
    orders.send(3)  # the first three keys again
    _, said = run(orders, orders.topic, path, *words)
    assert said == "3 rows: 1 file, 1 commit\n"
    assert polars.read_delta(path)["key"].n_unique() == polars.read_delta(path).height == 300
    run(orders, "check", path, "--topic", orders.topic)
    _, said = run(orders, orders.topic, path, *words[:-1], "missing", "--job", "other", code=2)
    assert "--upsert" in said
    _, said = run(orders, orders.topic, "lake.orders", "--catalog", "sqlite://", "--upsert", "key", code=2)
    assert "MERGE INTO" in said


def test_small_files_are_compacted_and_old_ones_cleaned(orders: Orders, tmp_path: Path) -> None:
    path = tmp_path / "lake"
    for _ in range(2):
        run(orders, orders.topic, str(path), "--until", "now")
        orders.send(30)
    _, said = run(orders, "compact", str(path))
    assert said.startswith("2 files of ")
    assert " became 1 file of " in said
    (path / "old.parquet").write_bytes(b"rows")
    os.utime(path / "old.parquet", (1, 1))
    out, said = run(orders, "clean", str(path), "--dry-run")
    assert (out, said) == ("old.parquet\n", "1 file would be deleted\n")
    out, said = run(orders, "clean", str(path), "--older-than", "8d")
    assert (out, said) == ("old.parquet\n", "1 file was deleted\n")
    assert not (path / "old.parquet").exists()
    _, said = run(orders, "clean", str(path), "--older-than", "1h", code=2)
    assert "--older-than" in said
    assert "expected 168 hours or more" in said


def test_fields_without_a_schema_are_those_of_records_and_of_the_table(orders: Orders, tmp_path: Path) -> None:
    path = str(tmp_path / "lake")
    run(orders, orders.topic, path, "--value", "json", "--schema", "id bigint, note string", "--until", "now")
    orders.send(3)
    _, said = run(orders, orders.topic, path, "--value", "json", "--until", "now")
    assert "its fields are those of the table, and of 303 records: amount DOUBLE\n" in said
    rows = polars.read_delta(path).sort("id")
    assert set(rows.columns) == {"id", "note", "amount", "key", "_kafka"}
    assert rows["amount"].to_list()[-3:] == [150.0, 150.5, 151.0]


def test_a_dry_run_shows_columns_and_changes_nothing(orders: Orders, tmp_path: Path) -> None:
    words = ("--value", "json", "--schema", "id bigint", "--until", "now", "--dry-run")
    out, said = run(orders, orders.topic, str(tmp_path / "lake"), *words)
    assert out.splitlines()[0] == "id\tint64\tnew table"
    assert re.search(r"300 offsets of 3 partitions would be read, about \d+(\.\d)? k?B in 1 file; nothing", said)
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_commits_what_is_there(orders: Orders, tmp_path: Path, number: int) -> None:
    path = str(tmp_path / "lake")
    with start(orders, orders.topic, path, "--every", "1s") as process:
        while not (tmp_path / "lake").exists() or not sum(map(len, landed_or_none(path).values())):
            assert process.poll() is None
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "committing what is there" in said
    run(orders, orders.topic, path, "--until", "now")
    assert landed(path) == orders.offsets()


def landed_or_none(path: str) -> dict[int, list[int]]:
    try:
        return landed(path)
    except (deltalake.exceptions.TableNotFoundError, deltalake.exceptions.DeltaError):
        return {}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--every", "often"), "--every often: expected a time"),
        (("--max-bytes", "much"), "--max-bytes much: expected a size"),
        (("--bad", "column"), "add --value json"),
        (("--storage-option", "AWS_SECRET_ACCESS_KEY=secret"), "everyone on this machine can read"),
        (("--value", "json", "--schema", "id int", "--bad", "drop", "--dead-letter", "x"), "give one of them"),
        (("--value", "json", "--schema", "key int"), "--key-column _key"),
        (("--until", "soon"), "soon"),
        (("--from", "0:42=5"), "expected partitions and where they begin"),
        (("--from", "0=often"), "expected an offset"),
        (("--schema", "id bigint"), "say how values are decoded; add --value json, avro or protobuf"),
        (("--health-port", "http"), "expected a port, such as 8080"),
        (("--health-port", "127.0.0.1:70000"), "expected a port, such as 8080"),
    ],
)
def test_options_that_make_no_sense(orders: Orders, tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    _, said = run(orders, orders.topic, str(tmp_path / "lake"), *words, code=2)
    assert told in said
    assert said.count("\n") == 1


def test_errors_name_the_options(orders: Orders, tmp_path: Path) -> None:
    path = str(tmp_path / "lake")
    run(orders, orders.topic, path, "--until", "now")
    _, said = run(orders, orders.topic, path, "--until", "now", "--job", "other", code=1)
    assert "the table has rows of" in said
    assert "if a job of another name wrote them, its name as --job goes on behind them. Else say where" in said
    run(orders, orders.topic, path, "--until", "now", "--job", "other", "--from", "0=90,1=latest,2=99")
    again = {number: [*range(100), *more] for number, more in enumerate([range(90, 100), [], [99]])}
    assert landed(path) == {number: sorted(offsets) for number, offsets in again.items()}


def test_errors_say_what_a_job_can_do(orders: Orders, tmp_path: Path) -> None:
    path = str(tmp_path / "daily")
    words = (orders.topic, path, "--value", "json", "--schema", "id bigint", "--until", "now")
    orders.send_bad()
    _, said = run(orders, *words, "--dead-letter", orders.topic, code=2)
    assert "--dead-letter: the job would read its dead letters again; name another topic for them" in said
    _, said = run(orders, *words, "--partition-by", "day(timestamp)", code=1)
    told = "--bad column keeps such records in the table, --dead-letter TOPIC writes them to a topic, and --bad drop "
    assert said.endswith(f"; {told}leaves them out\n")
    _, said = run(orders, *words, "--bad", "column", code=1)
    assert said.endswith("partitioned by _date; give --partition-by 'day(timestamp)', as the table has it\n")


def test_a_restart_without_the_decoder_is_refused(orders: Orders, tmp_path: Path) -> None:
    """It added a column of bytes, rows with nulls beside it, and moved the positions behind them."""
    path = str(tmp_path / "lake")
    run(orders, orders.topic, path, "--value", "json", "--schema", "id bigint", "--until", "now")
    orders.send(3)
    for more in ((), ("--dry-run",)):
        _, said = run(orders, orders.topic, path, "--until", "now", *more, code=1)
        assert "has the columns id of values that were decoded, and this job decodes none" in said
        assert "give --value json and --schema as the table's job has it" in said
    assert polars.read_delta(path).height == 300


def test_a_job_that_follows_without_a_terminal_says_a_line_for_each_commit(orders: Orders, tmp_path: Path) -> None:
    with start(orders, orders.topic, str(tmp_path / "lake"), "--every", "1s") as process:
        assert process.stderr is not None
        assert re.fullmatch(r"version \d+: 300 rows in 1 file\n", process.stderr.readline())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def test_a_terminal_shows_how_far_it_is(orders: Orders, tmp_path: Path) -> None:
    master, terminal = os.openpty()
    with start(orders, orders.topic, str(tmp_path / "lake"), "--until", "now", stderr=terminal) as process:
        os.close(terminal)
        shown = b""
        with suppress(OSError):  # the command has ended
            while more := os.read(master, 4096):
                shown += more
    os.close(master)
    assert process.returncode == 0
    assert re.search(rb"landing.*100%.*records/s", shown, flags=re.DOTALL), shown


def test_an_estimate_of_the_files_is_close_to_what_is_written(ground: Ground, tmp_path: Path) -> None:
    made = Orders(ground.bootstrap, ground.topic(2))
    made.send(30_000, text="some text that compresses")
    options: dict[str, Any] = {"value": monedula.Json(f"{ORDER}, text string"), "max_bytes": 20_000}
    plan = made.job(tmp_path / "lake", **options).plan()
    result = made.land(tmp_path / "lake", **{**options, "max_bytes": 1 << 30})
    assert result.size / 2 < plan.size < result.size * 2
    assert plan.files == -(-plan.size // 20_000) > 1
    assert made.job(tmp_path / "lake", **options).plan()[-2:] == (0, 0)
    days = made.job(tmp_path / "daily", partition_by="day(timestamp)", **options).plan()
    assert days.files >= plan.files
    made.send_bad()
    values = made.job(tmp_path / "other", partition_by="text", bad_records="column", **options).plan()
    assert values.files == -(-values.size // 20_000)


def test_a_key_column_of_another_name_is_no_field_of_the_next_run(orders: Orders, tmp_path: Path) -> None:
    orders.send(3, key="a field")
    words = (orders.topic, str(tmp_path / "lake"), "--value", "json", "--key-column", "_key", "--until", "now")
    run(orders, *words)
    orders.send(3, key="a field")
    run(orders, *words)
    rows = polars.read_delta(str(tmp_path / "lake"))
    assert rows["key"].drop_nulls().to_list() == ["a field"] * 6
    assert rows["_key"].null_count() == 0


@pytest.mark.parametrize("name", ["sas_token", "token", "credential", "s3.session-token", "aws_session_token"])
def test_secrets_are_no_options_of_a_command(orders: Orders, tmp_path: Path, name: str) -> None:
    words = ("--until", "now", "--storage-option", f"{name}=secret")
    _, said = run(orders, orders.topic, str(tmp_path / "lake"), *words, code=2)
    assert "everyone on this machine can read" in said


@pytest.mark.parametrize("catalog", ["postgresql://host/catalog?password=secret", "https://secret@host/catalog"])
def test_secrets_are_in_no_address_of_a_catalog(orders: Orders, catalog: str) -> None:
    _, said = run(orders, orders.topic, "lake.orders", "--catalog", catalog, "--until", "now", code=2)
    assert "everyone on this machine can read" in said


def test_a_dry_run_refuses_what_a_run_refuses(orders: Orders, tmp_path: Path) -> None:
    words = ("--value", "json", "--schema", "id bigint", "--partition-by", "nothing", "--until", "now")
    _, said = run(orders, orders.topic, str(tmp_path / "lake"), *words, "--dry-run", code=2)
    assert "--partition-by nothing: the columns are id, key, _kafka" in said


def test_a_target_that_is_no_folder_is_told_in_a_line(orders: Orders, tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("no folder")
    _, said = run(orders, orders.topic, str(tmp_path / "lake"), "--until", "now", code=1)
    assert said.count("\n") == 1
