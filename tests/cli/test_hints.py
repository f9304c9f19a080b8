"""What an error says of names and options that were probably meant."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest
from monedula.cli import running
from monedula.cli.similar import similar
from monedula.testing import Broker

from tests.cli.processes import problem, run


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """A broker with `orders`, `orders-eu` and `payments`."""
    with Broker(settings={"auto.create.topics.enable": False}) as broker:
        for topic in ("orders", "orders-eu", "payments"):
            broker.create_topic(topic, 1)
        yield broker.bootstrap_servers


@pytest.mark.parametrize(
    "line",
    [
        "consume order",
        "consume Orders -p 0",
        "consume order --follow --timeout 20",
        "consume order --follow --timeout 0",
        "consume order -g etl",
        "consume orders order -g etl",
        "consume ^pay order -g etl --timeout 0",
        "produce order",
        "topics list order",
        "topics describe order",
        "topics delete order --yes",
        "topics add-partitions order --to 5",
        "topics offsets order",
        "configs set topic order retention.ms=1",
        "groups reset etl --topic order --to earliest --yes",
        "reassignments plan --topic order",
        "schema infer order",
    ],
)
def test_a_topic_that_is_misspelt_is_told_with_those_that_are_like_it(servers: str, line: str) -> None:
    told = problem(*line.split(), servers=servers, stdin=b"x\n")
    assert "; did you mean orders" in told
    assert "payments" not in told


@pytest.mark.parametrize(
    "more", ["", " --follow --timeout 0", " --follow --timeout 20", " --follow --from -3 --timeout 1"]
)
def test_a_partition_that_a_topic_has_not_is_an_error_however_short_the_wait(servers: str, more: str) -> None:
    assert "orders-7: " in problem(*f"consume orders -p 0,7{more}".split(), servers=servers)


def test_a_member_waits_for_topics_that_match_a_pattern(servers: str) -> None:
    waited = run("consume", "^ordres", "-g", "etl", "--timeout", "0", servers=servers)
    assert (waited.returncode, waited.stderr) == (0, b"no record: none came in 0 s\n")


@pytest.mark.parametrize("kind", ["lines", "arrow"])
def test_it_is_told_once_also_when_warnings_of_the_log_are_shown(servers: str, tmp_path: Path, kind: str) -> None:
    data, file = b"a\nb\n", []
    if kind == "arrow":
        file = ["-i", str(tmp_path / "data.arrow")]
        table = pyarrow.table({"value": [b"a", b"b"]})
        with pyarrow.OSFile(file[1], "wb") as sink, pyarrow.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    # Longer than warnings are held back.
    patience = "topic.metadata.propagation.max.ms=4000"
    assert "the topic order does not exist" in problem(
        "produce", "order", *file, "-X", patience, servers=servers, stdin=data
    )


@pytest.mark.parametrize("event", ["records_failed", "partition_stopped", "group_failed"])
def test_what_the_next_call_raises_is_no_warning(monkeypatch: pytest.MonkeyPatch, event: str) -> None:
    monkeypatch.setattr(running, "_CALM_SECONDS", 0.0)
    calm = running._Calm()
    record = logging.makeLogRecord({"levelno": logging.WARNING, "event": event})
    assert not calm.filter(record)
    # It is not counted as the one of 30 seconds either.
    assert calm.filter(logging.makeLogRecord({"levelno": logging.WARNING, "event": "topic_missing"}))


def test_the_topic_of_the_data_is_looked_for_too(servers: str) -> None:
    told = problem("produce", "-f", "json", servers=servers, stdin=b'{"topic": "payment", "value": "x"}\n')
    assert "line 1: " in told
    assert told.endswith("; did you mean payments?\n")


def test_a_topic_that_is_like_none_and_a_partition_that_is_missing_are_told_as_they_are(servers: str) -> None:
    assert "did you mean" not in problem("consume", "zzz", servers=servers)
    assert "did you mean" not in problem("consume", "orders", "-p", "7", servers=servers)


def test_the_most_similar_names_come_first_whatever_their_case() -> None:
    names = ["orders", "Orders", "order-lines", "payments", "ORDERS_EU"]
    assert similar("order", names) == ["Orders", "orders", "ORDERS_EU"]
    assert similar("orders_eu", names)[0] == "ORDERS_EU"
    assert similar("orders", names) == []
    assert similar("x", names) == []


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("-b localhost:1 topics list", "monedula topics list -b HOST:PORT"),
        ("-blocalhost:1 consume orders", "monedula topics list -b HOST:PORT"),
        ("--bootstrap-servers=localhost:1 topics list", "monedula topics list -b HOST:PORT"),
        ("--bootstrap-server localhost:1 topics list", "monedula topics list -b HOST:PORT"),
        ("topics -b localhost:1 list", "monedula topics list -b HOST:PORT"),
        ("groups -F client.properties list", "monedula groups list -F FILE"),
        ("-X acks=1 produce orders", "monedula topics list -X KEY=VALUE"),
        ("--json topics list", "the options of a command stand behind it"),
        ("topics list -v", "it stands before the command: monedula -v topics list"),
    ],
)
def test_an_option_at_the_wrong_place_is_told_with_the_right_one(line: str, told: str) -> None:
    assert told in problem(*line.split(), code=2)


@pytest.mark.parametrize("line", ["consume orders --where", "topics list -b", "produce orders -F", "consume -n"])
def test_an_option_without_its_value_is_told_in_one_line(line: str) -> None:
    assert f"Option '{line.split()[-1]}' requires an argument" in problem(*line.split(), code=2)


@pytest.mark.parametrize("line", ["topics list", "topics describe orders", "cluster describe", "topics offsets orders"])
def test_headings_in_a_pipe_are_there_on_request(servers: str, line: str) -> None:
    usual, headed = (run(*line.split(), *more, servers=servers).stdout for more in ([], ["--headings"]))
    heading, rest = headed.split(b"\n", 1)
    assert rest == usual
    assert heading.count(b"\t") == (usual.split(b"\n")[0].count(b"\t") or heading.count(b"\t"))
    assert heading.split(b"\t")[0].decode() in ("topic", "what", "name", "cluster_id")


def test_json_has_no_headings(servers: str) -> None:
    lines = [run("topics", "list", "--json", *more, servers=servers).stdout for more in ([], ["--headings"])]
    assert lines[0] == lines[1] != b""
