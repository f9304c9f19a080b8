"""`monedula transactions`: on the embedded broker."""

import json
from collections.abc import Iterator

import monedula
import pytest
from monedula.admin import Admin
from monedula.testing import Broker

from tests.cli.processes import output, problem, run
from tests.hanging_transactions import hang

OPEN = "billing-1"


def rows(*arguments: str, servers: str) -> list[list[str]]:
    return [line.split("\t") for line in output("transactions", *arguments, servers=servers).splitlines()]


def objects(*arguments: str, servers: str) -> list[dict[str, object]]:
    text = output("transactions", *arguments, "--json", servers=servers)
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def servers() -> Iterator[str]:
    """A broker with an open transaction in `orders`-0, and `payments` for one that hangs."""
    settings = {"transaction.partition.verification.enable": False, "auto.create.topics.enable": False}
    with Broker(topics={"orders": 2, "payments": 1}, settings=settings) as broker:
        own = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": OPEN}
        with monedula.Producer(own) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("orders", "open", partition=0).result()
            yield broker.bootstrap_servers
            producer.abort_transaction()


def test_transactions_are_listed_by_state_duration_and_pattern(servers: str) -> None:
    (row,) = rows("list", servers=servers)
    assert row[:2] == [OPEN, "Ongoing"]
    assert rows("list", "--state", "ongoing", "--matching", "billing-.*", servers=servers) == [row]
    assert rows("list", "--producer-id", row[2], servers=servers) == [row]
    for none in (("--state", "Empty"), ("--longer-than", "1h"), ("--matching", "billing"), ("--producer-id", "987654")):
        assert rows("list", *none, servers=servers) == []
    assert "expected one of Empty, Ongoing" in problem("transactions", "list", "--state", "x", servers=servers, code=2)


def test_a_transaction_and_the_producers_of_its_partition_are_shown(servers: str) -> None:
    (described,) = objects("describe", OPEN, servers=servers)
    assert (described["state"], described["partitions"]) == ("Ongoing", ["orders-0"])
    (producer,) = objects("producers", "orders", servers=servers)
    assert (producer["partition"], producer["start_offset"]) == (0, 0)
    assert producer["producer_id"] == described["producer_id"]
    assert objects("producers", "orders", "--partition", "1", servers=servers) == []
    assert "nobody" in problem("transactions", "describe", "nobody", servers=servers)


def test_a_hanging_transaction_is_found_and_aborted_by_its_offset(servers: str) -> None:
    with Admin({"bootstrap.servers": servers}) as admin:
        producer_id, _ = hang(admin, "lost", "payments")
    (found,) = objects("find-hanging", servers=servers)
    assert (found["topic"], found["partition"], found["transactional_id"]) == ("payments", 0, "lost")
    assert (found["producer_id"], found["start_offset"]) == (producer_id, 0)
    assert objects("find-hanging", "--topic", "^pay", "--partition", "0", "--broker", "1", servers=servers) == [found]
    assert objects("find-hanging", "--topic", "orders", servers=servers) == []
    assert objects("find-hanging", "--max-transaction-timeout", "2h", servers=servers) == []
    abort = ("transactions", "abort", "payments", "--partition", "0")
    assert "those that are open start at 0" in problem(*abort, "--start-offset", "7", "--yes", servers=servers)
    assert "add --yes" in problem(*abort, "--start-offset", "0", servers=servers, code=2)
    done = run(*abort, "--start-offset", "0", "--yes", servers=servers)
    assert (done.returncode, done.stdout) == (0, b"")
    assert f"aborted the transaction of producer {producer_id} in payments-0" in done.stderr.decode()
    assert objects("find-hanging", servers=servers) == []
    assert "none is open" in problem(*abort, "--start-offset", "0", "--yes", servers=servers)


def test_a_transaction_is_aborted_by_the_numbers_of_its_producer(servers: str) -> None:
    with Admin({"bootstrap.servers": servers}) as admin:
        hang(admin, "lost", "payments")
        producer_id, epoch = hang(admin, "lost", "payments")
    abort = ("transactions", "abort", "payments", "-p", "0", "--producer-id", str(producer_id), "--yes")
    assert "belong together" in problem(*abort, servers=servers, code=2)
    assert "a newer epoch" in problem(*abort, "--producer-epoch", str(epoch - 1), servers=servers)
    output(*abort, "--producer-epoch", str(epoch), "--coordinator-epoch", "0", servers=servers)
    assert objects("find-hanging", servers=servers) == []
