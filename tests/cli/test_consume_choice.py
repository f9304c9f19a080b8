"""`monedula consume`: format strings, CSV, filters, patterns, and what belongs to a name of a file."""

import json
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet
import pytest
from monedula.testing import Broker

from tests.cli.processes import Terminal, output, problem, run, running

RECORDS = [("k-0", "apple"), ("k-1", None), (None, "banana, ripe"), ("k-0", ""), ("K", 'a "fig"\n')]


@pytest.fixture
def servers(broker: Broker) -> str:
    """A broker with `ux-a`, whose records are `RECORDS`, and with `ux-b`, `uy` of one record each."""
    for name in ("ux-a", "ux-b", "uy"):
        broker.create_topic(name, 1)
    broker.append(
        "ux-a", RECORDS, timestamps=[1000 + row for row in range(5)], headers={"source": "web", "empty": None}
    )
    broker.append("ux-b", [("k-0", "b")], headers={"source": "app"})
    broker.append("uy", [("k-0", "y")])
    return broker.bootstrap_servers


def offsets(servers: str, *options: str) -> list[int]:
    text = output("consume", "ux-a", "-f", "%o", *options, servers=servers)
    return [int(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("template", "written"),
    [
        ("%k %o %s", b"k-0 0 apple\nk-1 1 \n"),
        ("%t[%p]@%o %T%%|", b"ux-a[0]@0 1000%|\nux-a[0]@1 1001%|\n"),
        (r"%K:%S\n", b"3:5\n3:-1\n"),
        (r"%h\x3b\t\\\0", b"source=web,empty=;\t\\\0" * 2),
        ("%R%s", struct.pack(">i", 5) + b"apple" + struct.pack(">i", -1)),
        ("%S é", "5 é\n-1 é\n".encode()),
    ],
)
def test_a_format_string_has_the_letters_of_kcat(servers: str, template: str, written: bytes) -> None:
    done = run("consume", "ux-a", "-n", "2", "-f", template, servers=servers)
    assert (done.returncode, done.stdout, done.stderr) == (0, written, b"")


def test_what_a_format_string_does_not_know_is_refused_with_what_it_does(servers: str) -> None:
    told = problem("consume", "ux-a", "-f", "%k %v", servers=servers, code=2)
    assert "%v is no letter" in told
    assert all(f"%{letter} " in told for letter in "sSRkKhtpoT%")
    assert r"\q is no escape" in problem("consume", "ux-a", "-f", r"%s\q", servers=servers, code=2)
    assert "% is no letter" in problem("consume", "ux-a", "-f", "100 %", servers=servers, code=2)
    assert "text, json, csv" in problem("consume", "ux-a", "-f", "yaml", servers=servers, code=2)


def test_null_can_be_told_from_empty_in_text(servers: str) -> None:
    assert output("consume", "ux-a", "-f", "%k|%s", "--null", "NULL", "-n", "4", servers=servers).splitlines() == [
        "k-0|apple",
        "k-1|NULL",
        "NULL|banana, ripe",
        "k-0|",
    ]
    assert output("consume", "ux-a", "-k", "=", "--null", "-", "-n", "2", servers=servers) == "k-0=apple\nk-1=-\n"


def test_a_format_string_does_not_move_a_terminal(
    servers: str, broker: Broker, terminal: Callable[..., Terminal]
) -> None:
    broker.append("uy", [("\x1b[2J", "a\rb")])
    screen = terminal("consume", "uy", "--from", "1", "-f", "%k=%s", servers=servers)
    assert screen.end() == 0
    assert screen.raw.strip() == r"\u001b[2J=a\rb"


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        (["--key", "=k-0"], [0, 3]),
        (["--key", "k-"], [0, 1, 3]),
        (["--key", ":K"], [4]),
        (["--key", "~^[kK]"], [0, 1, 3, 4]),
        (["--key", "!=k-0"], [1, 2, 4]),
        (["--value", "an"], [2]),
        (["--value", "="], [3]),
        (["--value", "~(?i)A"], [0, 2, 4]),
        (["--value", "!~"], [1]),
        (["--key", "=k-0", "--value", "!="], [0]),
        (["--value", ":a", "--value", "!:,"], [0, 4]),
        (["--header", "source"], [0, 1, 2, 3, 4]),
        (["--header", "source=web"], [0, 1, 2, 3, 4]),
        (["--header", "source=we"], []),
        (["--header", "source:e", "-n", "2"], [0, 1]),
        (["--header", "source~^w.b$", "--key", "=K"], [4]),
        (["--header", "source!=web"], []),
        (["--header", "!other"], [0, 1, 2, 3, 4]),
        (["--header", "empty!=x", "--key", "=K"], [4]),
        (["--key", "=k-0", "-n", "1"], [0]),
    ],
)
def test_records_are_filtered(servers: str, options: list[str], rows: list[int]) -> None:
    assert offsets(servers, *options) == rows


def test_every_format_is_filtered(servers: str, tmp_path: Path) -> None:
    common = ["consume", "ux-a", "--key", "=k-0"]
    assert output(*common, servers=servers) == "apple\n\n"
    assert [json.loads(line)["offset"] for line in output(*common, "-f", "json", servers=servers).splitlines()] == [
        0,
        3,
    ]
    output(*common, "-o", str(tmp_path / "x.parquet"), servers=servers)
    assert pyarrow.parquet.read_table(tmp_path / "x.parquet")["offset"].to_pylist() == [0, 3]
    table = pyarrow.ipc.open_stream(run(*common, "-f", "arrow", servers=servers).stdout).read_all()
    assert table["value"].to_pylist() == [b"apple", b""]
    assert "needs the column key" in problem(*common, "-f", "json", "--columns", "offset", servers=servers, code=2)
    assert "no regular expression" in problem("consume", "ux-a", "--value", "~(", servers=servers, code=2)
    assert "header's name" in problem("consume", "ux-a", "--header", "=x", servers=servers, code=2)


def test_a_group_commits_what_a_filter_left_out_but_nothing_behind_the_last_record(servers: str) -> None:
    first = output("consume", "ux-a", "-g", "g", "-n", "1", "--key", "K", "--timeout", "30", servers=servers)
    assert first == 'a "fig"\n\n'
    assert output("groups", "offsets", "g", servers=servers).split("\t")[:3] == ["ux-a", "0", "5"]
    assert output("consume", "ux-a", "-g", "h", "-n", "1", "--key", "k-0", servers=servers) == "apple\n"
    assert output("groups", "offsets", "h", servers=servers).split("\t")[:3] == ["ux-a", "0", "1"]


def test_csv_has_a_line_of_names_and_keeps_null_apart_from_empty(servers: str, tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    output("consume", "ux-a", "-o", str(file), "--columns", "key,value,offset,timestamp", servers=servers)
    assert file.read_text().split("\n", 6) == [
        "key,value,offset,timestamp",
        "k-0,apple,0,1970-01-01T00:00:01.000Z",
        "k-1,,1,1970-01-01T00:00:01.001Z",
        ',"banana, ripe",2,1970-01-01T00:00:01.002Z',
        'k-0,"",3,1970-01-01T00:00:01.003Z',
        'K,"a ""fig""',
        '",4,1970-01-01T00:00:01.004Z\n',
    ]
    headers = output("consume", "ux-b", "-f", "csv", "--columns", "headers", servers=servers)
    assert headers == 'headers\n"[{""key"":""source"",""value"":""app""}]"\n'


def test_a_name_of_a_file_without_a_known_format_is_refused(servers: str, tmp_path: Path) -> None:
    for name in ("x.xml", "x.csv.gz", "x.xlsx"):
        told = problem("consume", "ux-a", "-o", str(tmp_path / name), servers=servers, code=2)
        assert ".csv, .arrow" in told
        assert not (tmp_path / name).exists()
    output("consume", "ux-a", "-o", str(tmp_path / "x.xml"), "-f", "json", "-n", "1", servers=servers)
    assert json.loads((tmp_path / "x.xml").read_text())["offset"] == 0
    output("consume", "uy", "-o", str(tmp_path / "x"), servers=servers)
    assert (tmp_path / "x").read_text() == "y\n"
    assert output("consume", "uy", "-o", "-", servers=servers) == "y\n"


def test_topics_are_found_by_a_pattern(servers: str) -> None:
    text = output("consume", "^ux-", "-f", "%t", "--key", "=k-0", servers=servers)
    assert sorted(text.split()) == ["ux-a", "ux-a", "ux-b"]
    assert sorted(output("consume", "^u.$", "ux-b", "-f", "%t", servers=servers).split()) == ["ux-b", "uy"]
    assert output("consume", "^ux-b", "-p", "0", "--follow", "-n", "1", servers=servers) == "b\n"
    told = problem("consume", "^zz", servers=servers)
    assert "no topic matches ^zz; there are: ux-a, ux-b, uy" in told
    assert "no regular expression" in problem("consume", "^(", servers=servers, code=2)


def test_a_member_finds_topics_that_come_later(servers: str, broker: Broker) -> None:
    options = ("-X", "metadata.max.age.ms=200", "-f", "%t %o")
    with running("consume", "^ux-", "uy", "-g", "g", *options, servers=servers) as process:
        assert process.stdout is not None
        seen = {process.stdout.readline().split()[0] for _ in range(7)}
        assert {b"ux-a", b"ux-b", b"uy"} >= seen
        broker.create_topic("ux-c", 1)
        broker.append("ux-c", ["late"])
        while process.stdout.readline() != b"ux-c 0\n":
            pass


def test_a_negative_start_says_that_it_is_per_partition(broker: Broker) -> None:
    broker.create_topic("orders", 3)
    broker.append("orders", ["x"])
    servers = broker.bootstrap_servers
    told = b"--from -10 is per partition: the last 10 records of each of 3 partitions\n"
    assert run("consume", "orders", "--from", "-10", servers=servers).stderr == told
    assert run("consume", "orders", "--from", "-10", "-p", "0", servers=servers).stderr == b""
    broker.append("orders", ["x"])
    assert run("consume", "orders", "--from", "-10", "--follow", "-n", "1", servers=servers).stderr == told
    assert "of each partition" in " ".join(output("consume", "--help").split())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("full", ""),
        ("full -n 0", ""),
        ("empty", "no record: nothing is there now\n"),
        ("full --from 3 --to 3", "no record: nothing is there from 3 to 3 (offsets: full-0 3..3)\n"),
        ("full --value =d", "no record: none of 3 meets the conditions\n"),
        ("empty --follow --timeout 0.1", "no record: none came in 0.1 s\n"),
    ],
)
def test_a_reader_that_writes_nothing_says_why(broker: Broker, options: str, told: str) -> None:
    broker.create_topic("empty", 1)
    broker.create_topic("full", 1)
    broker.append("full", ["a", "b", "c"])
    done = run("consume", *options.split(), servers=broker.bootstrap_servers)
    assert (done.returncode, done.stderr.decode()) == (0, told)


def test_records_in_a_pipe_do_not_mix_with_a_bar(
    broker: Broker, terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    broker.create_topic("many", 1)
    broker.append("many", [str(row) for row in range(20_000)])
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as reader:
        assert reader.stdin is not None
        piped = terminal("consume", "many", servers=broker.bootstrap_servers, stdout=reader.stdin.fileno())
        assert piped.end() == 0
        reader.stdin.close()
    assert piped.text == ""
    with (tmp_path / "many.txt").open("wb") as file:
        redirected = terminal("consume", "many", servers=broker.bootstrap_servers, stdout=file.fileno())
        assert redirected.end() == 0
    assert "100%" in redirected.text


@pytest.mark.parametrize(
    ("conditions", "wanted"),
    [
        (["key = k-0"], [0, 3]),
        (["key=k-0"], [0, 3]),
        (["key != k-0"], [1, 4]),
        (["key is null"], [2]),
        (["key in k-1, K"], [1, 4]),
        (["key NOT IN k-0,K"], [1]),
        (["headers.source = web"], [0, 1, 2, 3, 4]),
        (["headers.empty is not null"], []),
        (["offset >= 3"], [3, 4]),
        (["timestamp < 1002", "key = k-0"], [0]),
    ],
)
def test_where_says_which_records_are_read(servers: str, conditions: list[str], wanted: list[int]) -> None:
    options = [part for condition in conditions for part in ("--where", condition)]
    if wanted:
        assert offsets(servers, *options) == wanted
        return
    done = run("consume", "ux-a", *options, servers=servers)
    assert (done.stdout, done.stderr) == (b"", b"no record: none meets --where\n")


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("key", "expected COLUMN OPERATOR VALUE"),
        ("kee = a", "did you mean 'key'"),
        ("value = a", "it takes no condition on value; --value has them"),
        ("offset = a", "offset is compared with a whole number"),
        ("timestamp > soon", "is no time"),
    ],
)
def test_what_is_no_condition_of_where_is_refused(servers: str, condition: str, said: str) -> None:
    assert said in problem("consume", "ux-a", "--where", condition, servers=servers, code=2)
