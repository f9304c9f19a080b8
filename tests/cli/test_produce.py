"""`monedula produce`: input as lines, JSON, Arrow and Parquet, and invalid input."""

import base64
import json
import signal
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any

import monedula
import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest
from monedula.cli.failures import Failure
from monedula.cli.sources import json_lines
from monedula.testing import Broker

from tests.cli.processes import Terminal, output, problem, run, running


@pytest.fixture
def servers(broker: Broker) -> str:
    """A broker with the empty topics `orders`, of one partition, and `copy`, of three."""
    broker.create_topic("orders", 1)
    broker.create_topic("copy", 3)
    return broker.bootstrap_servers


def records(servers: str, topic: str = "orders") -> list[dict[str, Any]]:
    """The records of a topic."""
    table = pyarrow.table(monedula.read({"bootstrap.servers": servers}, topic, headers=True))
    return [dict(row) for row in table.to_pylist()]


def values(servers: str, topic: str = "orders") -> list[bytes | None]:
    return [record["value"] for record in records(servers, topic)]


def test_a_line_is_a_record(servers: str) -> None:
    done = run("produce", "orders", servers=servers, stdin=b"one\n\n\xfftwo\r\nlast")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert values(servers) == [b"one", b"", b"\xfftwo\r", b"last"]


def test_keys_nulls_headers_and_partitions(servers: str) -> None:
    options = ["-k", "=>", "--null", "NULL", "-H", "a=1", "-H", "b=x=y", "-p", "2", "-z", "zstd"]
    output("produce", "copy", *options, servers=servers, stdin=b"k=>v=>w\nNULL=>v\nk=>NULL\n")
    found = [(record["key"], record["value"], record["partition"]) for record in records(servers, "copy")]
    assert found == [(b"k", b"v=>w", 2), (None, b"v", 2), (b"k", None, 2)]
    assert records(servers, "copy")[0]["headers"] == [{"key": "a", "value": b"1"}, {"key": "b", "value": b"x=y"}]
    output("produce", "orders", "--key", "same", servers=servers, stdin=b"v\n")
    assert records(servers)[0]["key"] == b"same"


def test_what_is_consumed_as_json_goes_back_in(servers: str, broker: Broker) -> None:
    time = datetime(2026, 1, 1, 0, 0, 0, 123_000, tzinfo=UTC)
    rows = [("k", "v"), (None, None), (b"\xfe", b"\xff\x00")]
    broker.append("copy", rows, partition=1, timestamps=time, headers={"h": b"\xff", "i": "text"})
    text = output("consume", "copy", "-f", "json", "--headers", servers=servers)
    broker.create_topic("again", 3)
    output("produce", "again", "-f", "json", servers=servers, stdin=text.encode())
    assert [{**row, "topic": "copy"} for row in records(servers, "again")] == records(servers, "copy")
    output("produce", "-f", "json", servers=servers, stdin=text.encode())
    assert len(values(servers, "copy")) == 6
    output("produce", "orders", "-f", "json", "--any-partition", servers=servers, stdin=text.encode())
    assert values(servers) == values(servers, "again")


NUMBERS = [
    "1.10",
    "123456789012345678.123456789",
    "1e-400",
    "1E+400",
    "-0",
    "-0.0",
    "1" * 5000,
    "1.0",
    "12345678901234567890",
]
DOCUMENTS = [
    *NUMBERS,
    *(f'{{"n": {number}, "within": [{number}]}}' for number in NUMBERS),
    *("null", "true", "false", '""', '"text"', '"null"', "[]", "{}", "[null]", '"\\u00e9"'),
    *(
        '{"a":  1 , "b":[ 1,2 ]}',
        '{"a": 1, "a": 2}',
        '{"caf\u00e9": "\\u00e9 \\/ \\ud83d\\ude00"}',
        '{"half": "\\ud800"}',
    ),
    *('{\n  "pretty": true\r\n}\n', " 1", "1 ", "\t{}\t", "\ufeff1", "{} {}", "NaN", "nul", "'a'", ""),
    *('{"b": 1, "a": 2}', '{"value": null, "key": "k"}', "\u2028", '"\\u0000"', "\0", "{" + '"x":{' * 90 + "}" * 91),
]


@pytest.mark.parametrize("form", ["auto", "json", "base64", "hex"])
def test_a_copy_in_a_pipe_has_the_same_bytes(servers: str, broker: Broker, form: str) -> None:
    rows: list[Any] = [(text, text) for text in DOCUMENTS]
    rows += [(None, None), (b"\xff", b"\xfe{}"), ("null", None), (None, "null"), ("", ""), (b"\xed\xa0\x80", b"\xc3")]
    for topic in ("documents", "same"):
        broker.create_topic(topic, 1, config={"message.timestamp.after.max.ms": (1 << 63) - 1})
    headers = {"number": "1.10", "null": "null", "bytes": b"\xff", "empty": "", "nothing": None}
    times = [1_700_000_000_000 + 37 * row for row in range(len(rows) - 2)] + [0, 253_402_300_800_123]
    broker.append("documents", rows, timestamps=times, headers=headers)
    text = output(
        "consume", "documents", "-f", "json", "--headers", "--value-as", form, "--key-as", form, servers=servers
    )
    output("produce", "same", "-f", "json", servers=servers, stdin=text.encode())
    settings = {"bootstrap.servers": servers}
    read = (pyarrow.table(monedula.read(settings, name, headers=True)) for name in ("documents", "same"))
    documents, same = (table.drop_columns("topic") for table in read)
    assert same.num_rows == len(rows)
    assert same.equals(documents)


def test_numbers_written_by_hand_keep_their_digits(servers: str) -> None:
    lines = [
        '{"value": 1.10, "key": 1e-400, "headers": {"h": 0.10, "i": {"j": 1e400}}}',
        '{"value": {"amount": 123456789012345678.123456789}, "headers": [{"key": "h", "value": [1.50]}, {"key": "i"}]}',
        '\ufeff{"key": {"id": 1.0}, "value": -0}',
        '{"value": true, "key": false}',
    ]
    output("produce", "orders", "-f", "json", servers=servers, stdin="\n".join(lines).encode())
    found = [(row["key"], row["value"], row["headers"]) for row in records(servers)]
    headers: list[Any] = [[{"key": "h", "value": b"0.10"}, {"key": "i", "value": b'{"j": 1e400}'}]]
    headers += [[{"key": "h", "value": b"[1.50]"}, {"key": "i", "value": None}]]
    assert found == [
        (b"1e-400", b"1.10", headers[0]),
        (None, b'{"amount": 123456789012345678.123456789}', headers[1]),
        (b'{"id": 1.0}', b"-0", None),
        (b"false", b"true", None),
    ]


def test_json_may_be_written_by_hand(servers: str) -> None:
    lines = [
        {"value": {"amount": 1.5, "name": "\u010d"}},
        {"value": [1, None]},
        {"value": 7, "key": "k", "headers": {"h": "1"}},
        {"value_hex": "ff00", "timestamp": 1_700_000_000_000},
        {"value_base64": base64.b64encode(b"\xff").decode(), "timestamp": "2026-01-01T01:00:00+01:00"},
    ]
    stdin = "\n\n".join(json.dumps(line) for line in lines).encode()
    output("produce", "orders", "-f", "json", servers=servers, stdin=stdin)
    found = records(servers)
    assert [row["value"] for row in found] == [
        rb'{"amount": 1.5, "name": "\u010d"}',
        b"[1, null]",
        b"7",
        b"\xff\x00",
        b"\xff",
    ]
    assert found[2]["headers"] == [{"key": "h", "value": b"1"}]
    assert found[3]["timestamp"] == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert found[4]["timestamp"] == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("name", ["copy.parquet", "copy.arrow", "copy.arrows"])
def test_files_of_tables_go_in(servers: str, broker: Broker, tmp_path: Path, name: str) -> None:
    for partition in range(3):
        broker.append(
            "copy", [("k", f"{partition}-{row}") for row in range(100)], partition=partition, headers={"h": "1"}
        )
    file = str(tmp_path / name)
    output("consume", "copy", "--headers", "-o", file, servers=servers)
    broker.create_topic("again", 3)
    output("produce", "again", "-i", file, servers=servers)
    in_order: Any = [("partition", "ascending"), ("offset", "ascending")]
    tables = [
        pyarrow.table(monedula.read({"bootstrap.servers": servers}, topic, headers=True)).sort_by(in_order)
        for topic in ("copy", "again")
    ]
    assert tables[0].drop_columns("topic").equals(tables[1].drop_columns("topic"))
    kind = "parquet" if name.endswith("parquet") else "arrow"
    output("produce", "orders", "-f", kind, "-p", "0", servers=servers, stdin=Path(file).read_bytes())
    assert len(values(servers)) == 300


@pytest.mark.parametrize("count", [1, 2, 4, 6, 9])
@pytest.mark.parametrize("kind", ["json", "arrow", "parquet", "encoded"])
def test_a_copy_into_other_partitions_is_whole_and_keeps_the_order_of_each_key(
    servers: str, broker: Broker, kind: str, count: int
) -> None:
    source = [partition for partition in range(6) for _ in range(50)]
    broker.create_topic("source", 6)
    broker.create_topic("target", count)
    for partition in range(6):
        broker.append(
            "source", [(f"{partition}-{row % 7}", f'{{"n":{row}}}') for row in range(50)], partition=partition
        )
    copied = run("consume", "source", "-f", kind if kind != "encoded" else "json", servers=servers).stdout
    encoding = ["--encode", "json", "--schema", "n int"] if kind == "encoded" else []
    if kind == "encoded":
        copied = run("consume", "source", "-f", "json", "--value-as", "json", servers=servers).stdout
    given = ["-f", "json" if kind == "encoded" else kind, *encoding]
    done = run("produce", "target", *given, servers=servers, stdin=copied)
    assert done.returncode == 0, done.stderr
    told = f"target has {count} partition{'' if count == 1 else 's'}: records of others go where their keys say\n"
    assert done.stderr.decode() == (told if count < 6 else "")
    found = records(servers, "target")
    by_key: dict[Any, Any] = {}
    for row in sorted(found, key=lambda row: (row["partition"], row["offset"])):
        by_key.setdefault((row["key"], row["partition"]), []).append(json.loads(row["value"])["n"])
    assert len(found) == len(source)
    assert len({key for key, _ in by_key}) == len(by_key) == 42
    assert all(numbers == sorted(numbers) for numbers in by_key.values())
    kept = {(key, partition) for key, partition in by_key if int(key[:1]) < count}
    assert all(int(key[:1]) == partition for key, partition in kept)


def test_topics_of_the_data_have_their_own_partitions(servers: str, tmp_path: Path) -> None:
    file = str(tmp_path / "rows.parquet")
    rows: dict[str, Any] = {
        "value": ["a", "b", "c", "d"],
        "topic": ["orders", "copy", "copy", "orders"],
        "partition": [2, 2, 3, None],
    }
    pyarrow.parquet.write_table(pyarrow.table(rows), file)
    lines = [json.dumps(dict(zip(rows, row, strict=True))) for row in zip(*rows.values(), strict=True)]
    for arguments, stdin in ((["-i", file], b""), (["-f", "json"], "\n".join(lines).encode())):
        done = run("produce", *arguments, servers=servers, stdin=stdin)
        assert done.returncode == 0, done.stderr
        assert sorted(done.stderr.decode().splitlines()) == [
            "copy has 3 partitions: records of others go where their keys say",
            "orders has 1 partition: records of others go where their keys say",
        ]
    assert sorted(row["value"] for row in records(servers)) == [b"a", b"a", b"d", b"d"]
    assert [row["partition"] for row in records(servers, "copy") if row["value"] == b"b"] == [2, 2]


def test_a_partition_on_the_command_line_has_to_be_there(servers: str) -> None:
    line = b'{"value": "x", "partition": 0}\n'
    told = problem("produce", "orders", "-p", "2", "-f", "json", servers=servers, stdin=line, code=1)
    assert "the topic has 1 partition," in told
    assert values(servers) == []


def test_columns_may_have_other_names(servers: str, tmp_path: Path) -> None:
    file = tmp_path / "orders.parquet"
    table = pyarrow.table({"id": ["a", "b"], "payload": ["x", None], "value": [1, 2], "rest": [3, 4]})
    pyarrow.parquet.write_table(table, file)
    options = ["produce", "orders", "-i", str(file), "--key-column", "id", "--value-column", "payload"]
    output(*options, servers=servers)
    assert [(record["key"], record["value"]) for record in records(servers)] == [(b"a", b"x"), (b"b", None)]
    pyarrow.parquet.write_table(table.drop_columns("value"), file)
    assert "no column 'value'; name it with --value-column" in problem(*options[:4], servers=servers)
    assert "no column 'x'; there are id, payload, rest" in problem(*options[:4], "--key-column", "x", servers=servers)


def test_what_is_piped_is_sent_while_the_pipe_is_open(servers: str) -> None:
    settings = {"bootstrap.servers": servers, "auto.offset.reset": "earliest"}
    with (
        running("produce", "orders", servers=servers, stdin=subprocess.PIPE) as process,
        monedula.Consumer(settings) as consumer,
    ):
        assert process.stdin is not None
        assert process.stderr is not None
        consumer.assign("orders")
        process.stdin.write(b"first\n")
        assert [record.value for record in consumer.poll(60).records()] == [b"first"]
        process.stdin.write(b"second\n")
        assert [record.value for record in consumer.poll(60).records()] == [b"second"]
        process.send_signal(signal.SIGINT)
        assert (process.wait(60), process.stderr.read()) == (130, b"")


def test_a_terminal_is_told_what_to_do_and_what_was_done(servers: str, terminal: Callable[..., Terminal]) -> None:
    screen = terminal("produce", "orders", servers=servers)
    screen.until("Ctrl-D ends")
    screen.type("hello\n\x04")
    screen.until("1 record was acknowledged")
    assert screen.end() == 0
    assert values(servers) == [b"hello"]


def test_a_file_has_a_bar(servers: str, terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("".join(f"{row}\n" for row in range(20_000)))
    screen = terminal("produce", "orders", "-i", str(file), servers=servers)
    screen.until("20000 records were acknowledged")
    assert screen.end() == 0
    assert "100%" in screen.text
    assert values(servers) == [str(row).encode() for row in range(20_000)]


def test_a_table_has_a_bar(servers: str, terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"value": [str(row) for row in range(200_000)]}), file)
    screen = terminal("produce", "orders", "-i", str(file), servers=servers)
    screen.until("200000 records were acknowledged")
    assert screen.end() == 0
    assert "100%" in screen.text
    assert len(values(servers)) == 200_000


def buffered(lines: bytes) -> BufferedReader:
    raw: Any = BytesIO(lines)
    return BufferedReader(raw)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (rb'{"value": "a\ud800"}', r"value has \ud800, half of a character; give the bytes as value_base64"),
        (rb'{"value": 1, "key": "\udfff"}', r"key has \udfff"),
        (rb'{"value": 1, "headers": {"h": "\ud83d"}}', r"value has \ud83d"),
        (b'{"value": NaN}', "NaN is no JSON"),
        (b'{"value": {"a": [-Infinity]}}', "-Infinity is no JSON"),
        (b'{"value": "a", "value_base64": "Yg=="}', "value and value_base64 are one thing twice"),
        (b'{"value": null, "value_hex": "00"}', "value and value_hex"),
        (b'{"value": 1, "key_hex": "00", "key_base64": "Yg=="}', "key_base64 and key_hex"),
        (b'{"value": "a", "value": "b"}', "an object has 'value' twice"),
        (b'{"value": 1, "headers": {"a": 1, "a": 2}}', "an object has 'a' twice"),
        (b'{"value": 1, "headers": [{"key": "a", "value": 1, "value": 2}]}', "an object has 'value' twice"),
        (b'{"value": 1, "headers": [{"key": "b", "valeu": "c"}]}', "a header has no field 'valeu'"),
        (b'{"value": 1, "headers": [{"key": "b", "value": "c", "value_hex": "00"}]}', "value and value_hex"),
    ],
)
def test_what_could_only_be_sent_as_something_else_is_refused(line: bytes, told: str) -> None:
    lines = json_lines(buffered(b'{"value": "good"}\n' + line))
    assert next(lines).value == b"good"
    with pytest.raises(Failure) as raised:
        next(lines)
    assert str(raised.value).startswith(f"line 2: {told}")


def test_what_can_be_sent_is_sent_as_it_stands() -> None:
    good = {
        rb'{"value": "\ud83d\ude00"}': "\N{GRINNING FACE}".encode(),
        b'{"value": {"a": [1.5, null]}}': b'{"a": [1.5, null]}',
        b'{"value": {"a": 1, "a": 2}}': b'{"a": 1, "a": 2}',
        b'{"value": 1e999}': b"1e999",
        rb'{"value": {"b": "\udfff"}}': rb'{"b": "\udfff"}',
        b'{"value": null}': None,
        b'{"value_hex": "00ff"}': b"\x00\xff",
        b'{"value": 12345678901234567890123}': b"12345678901234567890123",
    }
    stream = buffered(b"\n".join(good))
    assert [line.value for line in json_lines(stream)] == list(good.values())


def test_what_is_wrong_with_a_line_is_said_with_its_number(servers: str) -> None:
    def wrong(stdin: bytes, *options: str) -> str:
        return problem("produce", "orders", *options, servers=servers, stdin=stdin)

    assert "line 2: there is no ':' between a key and a value; 1 record was acknowledged" in wrong(
        b"a:b\nc\n", "-k", ":"
    )
    assert "line 1: a record has no field 'amount'" in wrong(b'{"amount": 1}', "-f", "json")
    assert "line 3: this is no JSON: Expecting value at column 1" in wrong(b'{"value": 1}\n\nx', "-f", "json")
    assert "line 1: a record is an object" in wrong(b"[1]", "-f", "json")
    assert "line 1: a record needs a value" in wrong(b'{"key": "a"}', "-f", "json")
    assert "line 1: partition is a number" in wrong(b'{"value": "a", "partition": "0"}', "-f", "json")
    assert "line 1: timestamp is milliseconds" in wrong(b'{"value": "a", "timestamp": "soon"}', "-f", "json")
    assert "line 1: value_base64 is not base64" in wrong(b'{"value_base64": "!"}', "-f", "json")
    assert "line 1: headers are" in wrong(b'{"value": "a", "headers": 3}', "-f", "json")
    assert "line 2" in wrong(b"a\n" + b"x" * 2_000_000 + b"\nb\n")
    assert "cannot be read as parquet" in wrong(b"nothing of that kind", "-f", "parquet")
    assert b"a" in values(servers)


def test_options_that_make_no_sense(servers: str, tmp_path: Path) -> None:
    def wrong(*options: str, code: int = 2) -> str:
        return problem("produce", *options, servers=servers, stdin=b'{"value": 1}\n', code=code)

    assert "where to? Give a topic" in wrong()
    assert "where to? Give a topic" in wrong("-f", "json", code=1)
    assert "--key-separator and --null are for --format lines" in wrong("orders", "-f", "json", "-k", ":")
    assert "--key-column and --value-column are for" in wrong("orders", "--key-column", "k")
    assert "a record goes to one partition" in wrong("orders", "-p", "0-1")
    assert "No such file or directory" in wrong("orders", "-i", str(tmp_path / "none"), code=1)
    assert "compression.type" in wrong("orders", "-z", "zip")
