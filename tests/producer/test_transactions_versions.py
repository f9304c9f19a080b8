"""Transactions under both versions of Kafka's protocol for them (`transaction.version`, KIP-890), on a real Kafka."""

from collections.abc import Iterator

import pytest

from tests.conftest import give_up
from tests.groups.ground import Ground, KafkaGround
from tests.kafka import KafkaCluster, KafkaUnavailable
from tests.producer.conftest import ProducerFactory

# Collected here once more, for the cluster below.
from tests.producer.test_transactions import (  # noqa: F401
    committed,
    test_a_second_producer_fences_the_first,
    test_exactly_once_while_members_come_and_go,
    test_offsets_of_a_member_that_was_put_out_are_refused,
    test_offsets_stand_and_fall_with_the_transaction,
    test_the_block_commits_and_an_exception_aborts,
    test_what_a_killed_process_left_open_is_ended,
)
from tests.producer.test_transactions_killed import test_killed_in_each_phase_nothing_is_lost_or_twice  # noqa: F401

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", params=[1, 2], ids=["version 1", "version 2"])
def version(request: pytest.FixtureRequest) -> int:
    """Of transactions."""
    found: int = request.param
    return found


@pytest.fixture(scope="module")
def ground(version: int) -> Iterator[Ground]:
    """A real Kafka with this version."""
    try:
        cluster = KafkaCluster(1, features={"transaction.version": version}).__enter__()
    except KafkaUnavailable as error:
        give_up(error)
    yield KafkaGround(cluster)
    cluster.close()


def test_partitions_are_added_by_a_request_under_version_1_only(
    ground: Ground, producer: ProducerFactory, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    topic = ground.topic()
    with (
        caplog.at_level("DEBUG", "monedula"),
        producer(transactional_id=ground.name("id")) as sender,
        sender.transaction(),
    ):
        sender.send(topic, "v")
    sent = "\n".join(record.getMessage() for record in caplog.records)
    assert ("sent AddPartitionsToTxn" in sent) == (version == 1)
    assert committed(ground.bootstrap, topic) == ["v"]
