"""`monedula consume`: formats, ranges, groups, and how it ends."""

import base64
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import monedula
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest
from monedula.cli.settings import settings_of
from monedula.testing import Broker

from tests.cli.processes import COMMAND, Terminal, output, problem, run, running

MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def servers(broker: Broker) -> str:
    """A broker with `orders`: six records in two partitions, a minute apart."""
    broker.create_topic("orders", 2)
    for partition in (0, 1):
        times = [int(MIDNIGHT.timestamp() * 1000) + 60_000 * row for row in range(3)]
        records = [(f"key-{partition}", f"value-{partition}-{row}") for row in range(3)]
        broker.append("orders", records, partition=partition, timestamps=times, headers={"source": "test"})
    return broker.bootstrap_servers


def lines(text: str) -> list[str]:
    return sorted(text.splitlines())


def test_a_pipe_gets_values_and_nothing_else(servers: str) -> None:
    done = run("consume", "orders", servers=servers)
    assert (done.returncode, done.stderr) == (0, b"")
    assert lines(done.stdout.decode()) == [f"value-{part}-{row}" for part in (0, 1) for row in range(3)]


def test_keys_go_before_values_if_asked_for(servers: str) -> None:
    text = output("consume", "orders", "-p", "1", "-n", "2", "-k", "=>", servers=servers)
    assert text == "key-1=>value-1-0\nkey-1=>value-1-1\n"


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        (["--from", "1"], [1, 2]),
        (["--from", "-1"], [2]),
        (["--from", "-10", "--to", "-1"], [0, 1]),
        (["--to", "1"], [0]),
        (["--from", "latest"], []),
        (["--from", "2026-01-01T00:01:00Z"], [1, 2]),
        (["--from", "2026-01-01T01:00:30+01:00", "--to", f"@{int(MIDNIGHT.timestamp() * 1000) + 120_000}"], [1]),
        (["--to", "1d ago"], [0, 1, 2]),
        (["--from", "-5m"], []),
        (["--max-rows", "2"], [0, 1]),
        (["--max-rows", "0"], []),
    ],
)
def test_a_range_is_read_and_no_more(servers: str, options: list[str], rows: list[int]) -> None:
    text = output("consume", "orders", "-p", "0", *options, servers=servers)
    assert text.splitlines() == [f"value-0-{row}" for row in rows]


def test_values_are_decoded_to_typed_columns(broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("typed", 1)
    broker.append("typed", [f'{{"id": {number}, "user": "u{number}"}}' for number in range(3)] + ["no json"])
    file, schema = tmp_path / "out.parquet", tmp_path / "typed.ddl"
    schema.write_text("id bigint, user string")
    options = ["consume", "typed", "--decode", "json", "-o", str(file)]
    output(*options, "--schema", str(schema), "--bad", "drop", "--flatten", servers=broker.bootstrap_servers)
    table = pyarrow.parquet.read_table(file)
    assert table.column_names[:3] == ["key", "id", "user"]
    assert table.select(["id", "user", "offset"]).to_pylist() == [
        {"id": number, "user": f"u{number}", "offset": number} for number in range(3)
    ]
    done = run(*options, "--schema", "id bigint", servers=broker.bootstrap_servers)
    assert done.returncode == 1
    assert "at offset 3: the value cannot be decoded" in done.stderr.decode()
    assert "--bad null or --bad drop goes on" in done.stderr.decode()
    output(*options, "--schema", "id bigint, _corrupt_record string", "--bad", "null", servers=broker.bootstrap_servers)
    assert pyarrow.parquet.read_table(file)["value"].to_pylist()[3] == {"id": None, "_corrupt_record": "no json"}
    left_out = run(*options, "--schema", "id bigint", "--bad", "drop", "--from", "3", servers=broker.bootstrap_servers)
    assert "no record: what is there cannot be decoded, and --bad drop leaves it out" in left_out.stderr.decode()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--decode", "json", "-f", "parquet"], "needs the fields: --schema"),
        (["--decode", "json", "--schema", "id bigint", "--flatten"], "add --format parquet or arrow"),
        (["--schema", "id bigint"], "add --decode json"),
        (["--decode", "json", "--schema", "id strange", "-f", "arrow"], "--schema: "),
        (["--decode", "json", "--schema", "id bigint", "-f", "arrow", "--value", "x"], "give one of them"),
        (["--decode", "json", "--subject", "s", "-f", "arrow"], "needs the fields: --schema"),
        (["--subject", "s"], "add --decode json, avro or protobuf"),
        (["--decode", "avro", "-f", "arrow"], "needs a schema: --schema order.avsc, or a registry"),
        (["--decode", "avro", "-f", "arrow", "--schema", '"int"', "--subject", "s"], "give one of them"),
        (
            ["--decode", "protobuf", "--schema", "order"],
            "but 'order'; nor is there a file of that name",
        ),
        (["--decode", "protobuf", "--schema", "message M {} message N {}"], "give --message, one of M, N"),
        (["--decode", "protobuf"], "needs a schema: --schema order.proto, or a registry"),
        (["--decode", "avro", "--schema", '"int"', "--message", "M"], "--message is for --decode protobuf"),
        (["more", "--decode", "avro", "-f", "arrow", "-X", "schema.registry.url=http://x"], "--subject NAME"),
    ],
)
def test_options_for_decoding_that_make_no_sense(servers: str, options: list[str], message: str) -> None:
    done = run("consume", "orders", *options, servers=servers)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.decode().split())


def test_the_last_batch_is_cut(broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("many", 1)
    broker.append("many", ["x"] * 120_000)
    options = ["consume", "many", "-n", "110000"]
    assert len(output(*options, servers=broker.bootstrap_servers).splitlines()) == 110_000
    for name in ("out.parquet", "out.arrow"):
        output(*options, "-o", str(tmp_path / name), servers=broker.bootstrap_servers)
    assert pyarrow.parquet.read_table(tmp_path / "out.parquet").num_rows == 110_000
    assert pyarrow.feather.read_table(tmp_path / "out.arrow").num_rows == 110_000


def test_json_lines_say_all_there_is(servers: str) -> None:
    text = output("consume", "orders", "-p", "0", "-n", "1", "-f", "json", "--headers", servers=servers)
    assert json.loads(text) == {
        "topic": "orders",
        "partition": 0,
        "offset": 0,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "timestampType": 0,
        "key": "key-0",
        "value": "value-0-0",
        "headers": [{"key": "source", "value": "test"}],
    }
    text = output("consume", "orders", "-p", "0", "-n", "1", "-f", "json", "--columns", "offset,value", servers=servers)
    assert json.loads(text) == {"offset": 0, "value": "value-0-0"}


def test_json_lines_are_what_python_would_write(broker: Broker) -> None:
    texts = ["plain", 'a "quote" and a \\', "".join(map(chr, range(32))), "\x7f\u2028\u017e\U0001f600", ""]
    # Around leap days, in a year of a century that has none, and the last that is written as a date.
    times = [0, 951_782_399_999, 951_868_800_000, 4_107_542_400_000, 253_402_300_799_999]
    broker.create_topic("texts", 1, config={"retention.ms": -1, "message.timestamp.after.max.ms": (1 << 63) - 1})
    broker.append("texts", [(text, text) for text in texts], timestamps=times, headers={"h": texts[1]})
    lines = output("consume", "texts", "-f", "json", "--headers", servers=broker.bootstrap_servers).split("\n")
    assert lines.pop() == ""
    for offset, (text, time, line) in enumerate(zip(texts, times, lines, strict=True)):
        at = (datetime(1970, 1, 1) + timedelta(milliseconds=time)).isoformat(timespec="milliseconds")
        place = {"topic": "texts", "partition": 0, "offset": offset, "timestamp": f"{at}Z", "timestampType": 0}
        record = {**place, "key": text, "value": text, "headers": [{"key": "h", "value": texts[1]}]}
        assert line == json.dumps(record, ensure_ascii=False, separators=(",", ":"))


def test_values_that_are_json_stay_as_they_are_on_one_line(broker: Broker) -> None:
    broker.create_topic("documents", 1)
    kept = ['{"n": 12345678901234567890.10, "n": 1e400}', "[]", "true"]
    # What would mean other bytes if it stood in the line as it is: no value, a text without its quotes, no line break.
    texts = ["null", '"a"', '{\n  "a": "b"\r\n}', " 1", "NaN", "{", "[" * 200]
    broker.append("documents", [*kept, *texts])
    options = ("-f", "json", "--value-as", "json", "--columns", "value")
    lines = output("consume", "documents", *options, servers=broker.bootstrap_servers).splitlines()
    assert lines[:3] == [f'{{"value":{text}}}' for text in kept]
    assert [json.loads(line) for line in lines[3:]] == [{"value": text} for text in texts]


def test_bytes_that_are_no_text_are_shown_as_asked_and_never_lost(broker: Broker) -> None:
    raw = b"\xff\x00\x1b[31m"
    broker.create_topic("raw", 1)
    broker.append("raw", [(b"\xfe", raw), (None, None), (None, '{"a": [1]}')])

    def first(*options: str) -> bytes:
        return run("consume", "raw", *options, servers=broker.bootstrap_servers).stdout

    assert first("-n", "1") == raw + b"\n"
    assert first("-n", "1", "--value-as", "hex") == raw.hex().encode() + b"\n"
    assert first("-n", "1", "--value-as", "base64") == base64.b64encode(raw) + b"\n"
    records = [json.loads(line) for line in first("-f", "json", "--columns", "key,value").splitlines()]
    assert records[0] == {"key_base64": "/g==", "value_base64": base64.b64encode(raw).decode()}
    assert records[1] == {"key": None, "value": None}
    records = [json.loads(line) for line in first("-f", "json", "--value-as", "json").splitlines()]
    assert records[2]["value"] == {"a": [1]}
    assert records[0]["value_base64"] == base64.b64encode(raw).decode()
    record = json.loads(first("-n", "1", "-f", "json", "--value-as", "string", "--key-as", "hex"))
    assert (record["value"], record["key_hex"]) == ("\ufffd\x00\x1b[31m", "fe")


def test_a_terminal_sees_where_a_record_is_and_is_not_moved_by_it(
    broker: Broker, terminal: Callable[..., Terminal]
) -> None:
    broker.create_topic("raw", 1)
    broker.append("raw", [("k", "a\x1b[2Jb\n"), (None, b"\xff"), (None, None)], timestamps=MIDNIGHT, headers={"h": "1"})
    screen = terminal("consume", "raw", "--headers", servers=broker.bootstrap_servers)
    assert screen.end() == 0
    assert screen.text.replace("\r\n", "\n").splitlines() == [
        "raw-0@0 2026-01-01T00:00:00.000Z [h=1] k a\\u001b[2Jb\\n",
        "raw-0@1 2026-01-01T00:00:00.000Z [h=1] 0xff",
        "raw-0@2 2026-01-01T00:00:00.000Z [h=1] null",
    ]
    assert "\x1b[2J" not in screen.raw
    assert "\x1b[2m" in screen.raw


def test_parquet_and_arrow_hold_every_column(servers: str, tmp_path: Path) -> None:
    expected = pyarrow.table(monedula.read({"bootstrap.servers": servers}, [("orders", 0)], headers=True))
    common = ["consume", "orders", "-p", "0", "--headers", "-o"]
    for name in ("out.parquet", "out.arrow", "out.arrows"):
        assert output(*common, str(tmp_path / name), servers=servers) == ""
    assert pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pylist() == expected.to_pylist()
    assert pyarrow.feather.read_table(tmp_path / "out.arrow").equals(expected)
    assert pyarrow.ipc.open_stream((tmp_path / "out.arrows").read_bytes()).read_all().equals(expected)
    piped = run("consume", "orders", "-f", "parquet", "-n", "4", "--columns", "offset", servers=servers).stdout
    table = pyarrow.parquet.read_table(pyarrow.BufferReader(piped))
    assert (table.num_rows, table.column_names) == (4, ["offset"])


def test_a_bounded_read_shows_a_bar_where_somebody_looks(
    broker: Broker, terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    broker.create_topic("many", 1)
    broker.append("many", [str(row) for row in range(50_000)])
    file = tmp_path / "many.txt"
    screen = terminal("consume", "many", "-o", str(file), servers=broker.bootstrap_servers)
    assert screen.end() == 0
    assert "100%" in screen.text
    assert "records/s" in screen.text
    assert "left" in screen.text
    assert file.read_text().splitlines() == [str(row) for row in range(50_000)]
    shown = terminal("consume", "many", "-n", "1", servers=broker.bootstrap_servers)
    assert shown.end() == 0
    assert "%" not in shown.text


def test_following_shows_what_comes_until_ctrl_c(broker: Broker) -> None:
    broker.create_topic("news", 1)
    broker.append("news", ["old", "older"])
    with running("consume", "news", "--from", "-1", "--follow", servers=broker.bootstrap_servers) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"older\n"
        broker.append("news", ["new"])
        assert process.stdout.readline() == b"new\n"
        process.send_signal(signal.SIGINT)
        assert (process.wait(60), process.stderr.read(), process.stdout.read()) == (130, b"", b"")


def test_ctrl_c_does_not_tear_what_is_being_written(broker: Broker) -> None:
    broker.create_topic("many", 1)
    broker.append("many", ["x" * 1000] * 5000)
    with running("consume", "many", "--follow", servers=broker.bootstrap_servers) as process:
        assert process.stdout is not None
        # The pipe holds less than a batch: once something came, the rest is on its way.
        first = process.stdout.read(10)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
        written = first + rest
        assert process.returncode == 130
    assert set(written.split(b"\n")) == {b"x" * 1000, b""}
    assert written.endswith(b"\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_file_is_whole_when_it_is_stopped(broker: Broker, tmp_path: Path, number: signal.Signals, code: int) -> None:
    broker.create_topic("news", 1)
    broker.append("news", ["a", "b"])
    file = tmp_path / "news.parquet"
    # Its message comes after it has taken the batch: it holds two records.
    options = ["-v", "consume", "news", "--follow", "-o", str(file)]
    with running(*options, servers=broker.bootstrap_servers) as process:
        assert process.stderr is not None
        while b"wrote" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(number)
        assert process.wait(60) == code
    assert pyarrow.parquet.read_table(file)["value"].to_pylist() == [b"a", b"b"]


def test_a_group_goes_on_where_it_was(broker: Broker) -> None:
    broker.create_topic("orders", 1)
    broker.append("orders", [str(row) for row in range(5)])
    group = ["consume", "orders", "--group", "etl", "--timeout", "20"]
    assert output(*group, "-n", "2", servers=broker.bootstrap_servers) == "0\n1\n"
    assert output(*group, "-n", "3", servers=broker.bootstrap_servers) == "2\n3\n4\n"
    with monedula.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "etl"}) as consumer:
        committed = consumer.committed([("orders", 0)])[monedula.TopicPartition("orders", 0)]
        assert committed is not None
        assert committed.offset == 5


def test_a_reader_that_goes_away_is_no_error(broker: Broker) -> None:
    broker.create_topic("many", 1)
    broker.append("many", ["x" * 1000] * 20_000)
    for kind in ("text", "json", "arrow"):
        with running("consume", "many", "-f", kind, servers=broker.bootstrap_servers) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.read(10)
            process.stdout.close()
            assert (process.wait(60), process.stderr.read()) == (141, b"")


def test_what_is_wrong_is_one_line(servers: str, tmp_path: Path) -> None:
    def wrong(*arguments: str, code: int = 2) -> str:
        return problem("consume", *arguments, servers=servers, code=code)

    assert "does not know this topic" in wrong("missing", code=1)
    told = wrong("orders", "--from", "9", code=1)
    assert "offset 9 is out of range" in told
    assert "Give a --from and a --to in it" in told
    for more in ((), ("--follow",), ("-g", "g")):
        told = wrong("orders,more", *more)
        assert "several topics are given one by one: orders, more (see" in told
        assert "()" not in told
    assert "--group is empty" in wrong("orders", "-g", "")
    assert "--from soon: expected an offset" in wrong("orders", "--from", "soon")
    assert "--partition x: expected a number" in wrong("orders", "-p", "x")
    assert "--to and --follow contradict" in wrong("orders", "--follow", "--to", "3")
    assert "--timeout is for" in wrong("orders", "--timeout", "3")
    assert "a group goes on where it committed" in wrong("orders", "--group", "g", "--from", "3")
    assert "--columns is for JSON" in wrong("orders", "--columns", "value")
    assert "No such option" in wrong("orders", "--fom", "3")
    assert "did you mean isolation.level" in wrong("orders", "-X", "isolation.levle=none")
    assert "-X x: expected key=value" in wrong("orders", "-X", "x")
    assert "No such file or directory" in wrong("orders", "-o", str(tmp_path / "none" / "out.parquet"), code=1)


def test_settings_come_from_a_file_and_options_go_before_it(servers: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"# a comment\nbootstrap.servers = {servers}\nisolation.level: \\\n  read_committed\n")
    options = ["consume", "orders", "-n", "1", "-F", str(file)]
    assert output(*options)
    assert "isolation.level" in problem(*options, "-X", "isolation.level=none", code=2)
    assert "127.0.0.1:1" in problem(*options, "-b", "127.0.0.1:1", "-X", "bootstrap.timeout.ms=300")
    file.write_text("bootstrap.servers\n")
    assert "line 1: expected key=value" in problem(*options, code=2)


@pytest.mark.parametrize(
    ("in_file", "options", "kept"),
    [
        ("request.timeout.ms=5000", ["socket.timeout.ms=6000"], {"socket.timeout.ms": "6000"}),
        ("socket.timeout.ms=5000", ["request.timeout.ms=6000"], {"request.timeout.ms": "6000"}),
        ("isolation.level=none", ["isolation_level=read_committed"], {"isolation_level": "read_committed"}),
        ("topic_metadata_propagation_max_ms=7", [], {"topic_metadata_propagation_max_ms": "7"}),
        ("fetch.min.bytes=1", ["fetch.min.bytes=2", "fetch.min.bytes=3"], {"fetch.min.bytes": "3"}),
    ],
)
def test_options_go_before_the_file_by_whatever_name(
    tmp_path: Path, in_file: str, options: list[str], kept: dict[str, str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap_servers=of-file:1\n{in_file}\n")
    found = settings_of(None, options, file)
    propagation = {"topic.metadata.propagation.max.ms": "2000"} if options else {}
    assert found == {"bootstrap_servers": "of-file:1", **kept, **propagation}
    assert settings_of("b:1", ["metadata.broker.list=x:1"], file)["bootstrap.servers"] == "b:1"
    assert (
        not {"metadata.broker.list", "bootstrap_servers"}
        & settings_of("b:1", ["metadata.broker.list=x:1"], file).keys()
    )


def test_the_same_setting_twice_on_the_command_line_is_told(servers: str) -> None:
    twice = ("-X", "request.timeout.ms=5000", "-X", "socket.timeout.ms=6000")
    assert "are the same setting" in problem("consume", "orders", *twice, servers=servers, code=2)


def test_an_option_of_its_own_goes_before_a_setting_by_whatever_name(servers: str) -> None:
    options = ("-z", "gzip", "-X", "compression.codec=none")
    output("produce", "orders", *options, servers=servers, stdin=b"more\n")
    for reading in (("--follow",), ("--group", "etl")):
        others = ("-X", "group_id=other", "-X", "auto_offset_reset=latest")
        assert run("consume", "orders", *reading, "--timeout", "5", "-n", "1", *others, servers=servers).returncode == 0


def test_without_pyarrow_it_says_what_to_install(servers: str) -> None:
    code = "import sys; sys.modules['pyarrow'] = None; from monedula.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "consume", "orders", "-f", "parquet", "-b", servers],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (
        1,
        'monedula consume: --format parquet needs pyarrow: pip install "monedula[cli,arrow]"\n',
    )


def test_a_closed_standard_output_is_said(servers: str) -> None:
    command = [*COMMAND, "consume", "orders", "-b", servers]
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, b"monedula consume: standard output is closed; give a file with -o\n")
