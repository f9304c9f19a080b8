"""One broker of 1, 3, 9 or 30 is slow, silent or gone: the rest goes on, `close()` ends, and nothing is lost."""

import time
from collections.abc import Callable, Iterable

import monedula
import pytest
from monedula.testing import Broker

from tests.share.conftest import SETTINGS
from tests.share.reading import PATIENCE_SECONDS, one, take, values
from tests.share.running import undone, until

NEVER_MS = 3_600_000
"""Longer than any test: nothing goes on by a timeout of a request."""
SLOW_MS = 2000

Strike = Callable[[Broker, int], object]

STRIKES: dict[str, Strike] = {
    "slow": lambda broker, node: broker.fault(node=node, delay_ms=SLOW_MS),
    "silent": lambda broker, node: broker.fault(node=node, black_hole="both"),
    "gone": lambda broker, node: broker.stop_node(node),
}


@pytest.mark.parametrize("nodes", [1, 3, 9, 30])
@pytest.mark.parametrize("strike", STRIKES)
def test_the_others_go_on_and_nothing_is_lost(nodes: int, strike: str) -> None:
    with Broker(nodes=nodes, topics={"jobs": nodes}, settings=SETTINGS) as broker:
        address, victim = broker.bootstrap_servers, nodes

        def append(first: int, partitions: Iterable[int] = range(nodes)) -> None:
            """A record for each partition, each of which has a leader of its own."""
            for partition in partitions:
                broker.append("jobs", [str(first + partition)], partition=partition)

        for partition in range(nodes):
            broker.move_leader("jobs", partition, partition + 1)
        broker.move_coordinator(group="workers", node=1)
        with monedula.Admin(bootstrap_servers=address) as admin:
            admin.alter_configs({("group", "workers"): {"share.auto.offset.reset": "earliest"}})
        append(0)
        settings = {"bootstrap.servers": address, "group.id": "workers", "fetch.max.wait.ms": 100}
        consumer = monedula.ShareConsumer(settings, ["jobs"], request_timeout_ms=NEVER_MS)
        # A session with each is open, when one of them is struck; a wait is under way there.
        assert take(consumer, nodes) == list(range(nodes))
        STRIKES[strike](broker, victim)
        append(nodes, range(nodes - (strike == "gone")))
        seen = take(consumer, nodes - 1 if strike != "slow" else nodes)
        assert set(range(nodes, 2 * nodes - 1)) <= set(seen)
        began = time.monotonic()
        consumer.close(timeout=1.0)
        assert time.monotonic() - began < PATIENCE_SECONDS, "far less than a request may take"
        broker.remove_faults()
        if strike == "gone":
            broker.start_node(victim)
            append(nodes, [nodes - 1])
        with monedula.ShareConsumer(settings, ["jobs"]) as other:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while undone(address, "workers"):
                assert time.monotonic() < deadline, (seen, other.health())
                seen += values(other.poll(timeout=0.2))
                other.commit()
        assert sorted(seen) == list(range(nodes, 2 * nodes))


def test_a_commit_ends_in_time_and_is_sent_nevertheless() -> None:
    with Broker(nodes=3, topics={"jobs": 3}, settings=SETTINGS) as broker:
        with monedula.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.alter_configs({("group", "workers"): {"share.auto.offset.reset": "earliest"}})
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "workers", "fetch.max.wait.ms": 100}
        for partition in range(3):
            broker.move_leader("jobs", partition, partition + 1)
            broker.append("jobs", [str(partition)], partition=partition)
        broker.move_coordinator(group="workers", node=1)
        with monedula.ShareConsumer(
            settings, ["jobs"], acknowledge="explicit", request_timeout_ms=NEVER_MS
        ) as consumer:
            in_hand: list[monedula.Batch] = []
            while sum(map(len, in_hand)) < 3:
                in_hand.append(one(consumer))
            silent = broker.fault(api=["ShareFetch", "ShareAcknowledge"], node=3, hold=True)
            for batch in in_hand:
                consumer.accept(batch)
            with pytest.raises(monedula.errors.KafkaTimeoutError):
                consumer.commit(timeout=1.0)
            silent.remove()
            until(lambda: undone(broker.bootstrap_servers, "workers") == 0)
            assert consumer.health()["unacknowledged_records"] == 0
