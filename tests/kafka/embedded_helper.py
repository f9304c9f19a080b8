"""`EmbeddedHelper`: `KafkaHelper` with librdkafka in place of Java: tests on the embedded broker start no JVM."""

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Literal

import monedula
from confluent_kafka import KafkaException, Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, NewPartitions, NewTopic, OffsetSpec
from monedula.testing import Broker

from tests.kafka.errors import HelperError
from tests.kafka.tools import Codec, KafkaHelper, Partition, Produced, Record, Topic, settings_text

TIMEOUT_SECONDS = 60.0
JAVA_ONLY = {"max.request.size": "message.max.bytes"}
"""Java's producer settings that librdkafka has under another name."""
TRANSACTION_NUMBERS = count(1)


class EmbeddedHelper(KafkaHelper):
    """librdkafka's admin client and producers on the embedded broker; leaders are moved by command.

    Every method raises `HelperError` if the broker refuses.
    """

    def __init__(self, bootstrap: str, broker: Broker) -> None:
        # Not `super().__init__`, which starts the JVM.
        self._bootstrap = bootstrap
        self._broker = broker
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._transactions: dict[str, Producer] = {}

    @property
    def pid(self) -> int:
        """The pid of this process: there is no other."""
        return os.getpid()

    def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 1,
        replication: int = 1,
        assignment: Mapping[int, Sequence[int]] | None = None,
        config: Mapping[str, object] | None = None,
    ) -> Topic:
        """Create a topic; every partition has a leader at once."""
        if assignment is None:
            new = NewTopic(topic, partitions, replication, config=settings_text(config))
        else:
            replicas = [list(assignment[partition]) for partition in sorted(assignment)]
            new = NewTopic(topic, len(replicas), replica_assignment=replicas, config=settings_text(config))
        self._done("create_topic", self._admin.create_topics([new]))
        return self.describe_topic(topic)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic; it is gone at once."""
        self._done("delete_topic", self._admin.delete_topics([topic]))

    def describe_topic(self, topic: str) -> Topic:
        """Id, leaders, replicas and in-sync replicas."""
        with monedula.Admin({"bootstrap.servers": self._bootstrap}) as admin:
            found = admin.describe_topics([topic])[topic]
        none = -1  # as Kafka's own admin client has it
        partitions = (
            Partition(each.partition, none if each.leader is None else each.leader, each.replicas, each.isr)
            for each in found.partitions
        )
        return Topic(found.topic_id or "", tuple(partitions))

    def add_partitions(self, topic: str, total: int) -> Topic:
        """Add partitions to a topic, up to `total`."""
        self._done("add_partitions", self._admin.create_partitions([NewPartitions(topic, total)]))
        return self.describe_topic(topic)

    def alter_topic_config(self, topic: str, config: Mapping[str, object]) -> None:
        """Set topic settings; others stay as they are."""
        entries = [ConfigEntry(name, value) for name, value in settings_text(config).items()]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        self._done("alter_topic_config", self._admin.incremental_alter_configs([resource]))

    def move_leader(self, topic: str, partition: int, leader: int) -> Topic:
        """Make this node the leader. The leader epoch rises."""
        self._broker.move_leader(topic, partition, leader)
        return self.describe_topic(topic)

    def elect_leader(self, topic: str, partition: int, *, unclean: bool = False) -> Topic:
        """Elect the preferred replica, or with `unclean` any live replica when there is no leader."""
        with monedula.Admin({"bootstrap.servers": self._bootstrap}) as admin:
            admin.elect_leaders([(topic, partition)], unclean=unclean)
        return self.describe_topic(topic)

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> Topic:
        """Move a partition to these nodes."""
        with monedula.Admin({"bootstrap.servers": self._bootstrap}) as admin:
            admin.alter_partition_reassignments({(topic, partition): list(replicas)})
        return self.describe_topic(topic)

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete records before an offset, by partition. -1 is the end."""
        positions = [Position(topic, partition, offset) for partition, offset in before.items()]
        self._done("delete_records", self._admin.delete_records(positions))

    def offsets(self, topic: str) -> dict[int, tuple[int, int]]:
        """Beginning and end offset of each partition."""
        partitions = self._admin.list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic].partitions

        def listed(spec: OffsetSpec) -> dict[int, int]:
            asked = self._admin.list_offsets({Position(topic, partition): spec for partition in partitions})
            return {position.partition: self._result("offsets", one).offset for position, one in asked.items()}

        first, end = listed(OffsetSpec.earliest()), listed(OffsetSpec.latest())
        return {partition: (first[partition], end[partition]) for partition in sorted(partitions)}

    def produce(
        self,
        topic: str,
        records: Iterable[Record],
        *,
        codec: Codec = "none",
        transaction: Literal["none", "commit", "abort", "open"] = "none",
        transactional_id: str | None = None,
        config: Mapping[str, object] | None = None,
    ) -> list[Produced]:
        """Produce with librdkafka; returns when all records are acknowledged. See `KafkaHelper.produce`."""
        if transaction == "open" and transactional_id is None:
            raise ValueError("an open transaction needs a transactional_id, to be ended by")
        if transaction != "none" and transactional_id is None:
            transactional_id = f"helper-{self.pid}-{next(TRANSACTION_NUMBERS)}"
        settings = {JAVA_ONLY.get(name, name): value for name, value in settings_text(config).items()}
        producer = self._producer(transactional_id, {"compression.type": codec, **settings})
        placed: dict[int, Produced] = {}
        try:
            for index, record in enumerate(records):
                self._send(producer, topic, index, record, placed)
            producer.flush(TIMEOUT_SECONDS)
        except (KafkaException, BufferError) as error:
            raise self._refused("produce", error) from error
        if transactional_id is not None and transaction in ("commit", "abort"):
            self.end_transaction(transactional_id, "commit" if transaction == "commit" else "abort")
        return [placed[index] for index in sorted(placed)]

    def end_transaction(self, transactional_id: str, how: Literal["commit", "abort"]) -> None:
        """End a transaction that `produce(..., transaction="open")` left open."""
        producer = self._transactions.pop(transactional_id)
        end = producer.commit_transaction if how == "commit" else producer.abort_transaction
        try:
            end(TIMEOUT_SECONDS)
        except KafkaException as error:
            raise self._refused("end_transaction", error) from error

    def close(self) -> None:
        """End the clients."""
        self._transactions.clear()

    def _producer(self, transactional_id: str | None, settings: Mapping[str, object]) -> Producer:
        held = self._transactions.get(transactional_id or "")
        if held is not None:
            return held
        common = {"bootstrap.servers": self._bootstrap, "partitioner": "murmur2_random", **settings}
        if transactional_id is None:
            return Producer(common)
        producer = Producer({**common, "transactional.id": transactional_id})
        try:
            producer.init_transactions(TIMEOUT_SECONDS)
            producer.begin_transaction()
        except KafkaException as error:
            raise self._refused("produce", error) from error
        self._transactions[transactional_id] = producer
        return producer

    def _send(self, producer: Producer, topic: str, index: int, record: Record, placed: dict[int, Produced]) -> None:
        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                raise self._refused("produce", KafkaException(error))
            placed[index] = Produced(message.partition(), message.offset(), message.timestamp()[1])

        optional = {name: record[name] for name in ("partition", "timestamp") if record.get(name) is not None}
        headers = [(name, value) for name, value in record.get("headers", ())]
        while True:
            try:
                producer.produce(
                    topic,
                    key=record.get("key"),
                    value=record.get("value"),
                    headers=headers or None,
                    on_delivery=delivered,
                    **optional,
                )
            except BufferError:
                producer.poll(1.0)
            else:
                producer.poll(0)
                return

    def _done(self, command: str, outcomes: Mapping[Any, Any]) -> None:
        for outcome in outcomes.values():
            self._result(command, outcome)

    def _result(self, command: str, outcome: Any) -> Any:
        try:
            return outcome.result(TIMEOUT_SECONDS)
        except KafkaException as error:
            raise self._refused(command, error) from error

    @staticmethod
    def _refused(command: str, error: Exception) -> HelperError:
        cause = error.args[0] if isinstance(error, KafkaException) else error
        return HelperError(command, cause.name() if hasattr(cause, "name") else type(cause).__name__, str(cause))
