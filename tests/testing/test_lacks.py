"""What a broker lacks it refuses, in words that name it, and nothing of it is done."""

import monedula
import pytest
from monedula.testing import Broker

PATIENCE_SECONDS = 60
TRANSACTIONS = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")


def stored(broker: Broker) -> list[bytes | None]:
    batches = monedula.read({"bootstrap.servers": broker.bootstrap_servers}, "t")
    return [record.value for batch in batches for record in batch.records()]


def lacking(**max_versions: int) -> Broker:
    return Broker(topics=["t"], max_versions=max_versions)


@pytest.mark.req("S173")
def test_idempotence() -> None:
    with lacking(InitProducerId=-1) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        with monedula.Producer(settings) as sender:
            error = sender.send("t", "never").exception(PATIENCE_SECONDS)
            assert error is not None
            assert "InitProducerId" in str(error)
        with monedula.Producer(settings, enable_idempotence=False) as plain:
            plain.send("t", "plain").result(PATIENCE_SECONDS)
        assert stored(broker) == [b"plain"]


@pytest.mark.req("S173")
@pytest.mark.parametrize("missing", TRANSACTIONS)
def test_transactions(missing: str) -> None:
    # Since version 2 of transactions (EndTxn 5 and later), clients send neither AddPartitionsToTxn nor AddOffsetsToTxn.
    with lacking(**{"EndTxn": 4, missing: -1}) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "isolation.level": "read_committed"}
        own = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "id"}

        def work() -> None:
            reading = {"group.id": "g", "enable.auto.commit": False}
            with (
                monedula.Producer(own) as sender,
                monedula.Consumer({"bootstrap.servers": broker.bootstrap_servers, **reading}) as consumer,
                sender.transaction() as transaction,
            ):
                sender.send("t", "never")
                transaction.send_offsets(consumer, {("t", 0): 7})

        with pytest.raises(monedula.KafkaError, match=missing):
            work()
        with monedula.Consumer(settings, group_id="g") as consumer:
            assert consumer.committed([("t", 0)]) == {monedula.TopicPartition("t", 0): None}
            consumer.assign("t")
            assert consumer.poll(timeout=0.2).num_rows == 0


@pytest.mark.req("S173")
def test_a_compression_type() -> None:
    """Those who speak Produce up to version 6 cannot read zstd, so that version does not take it (KIP-110)."""
    with lacking(Produce=6) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        with monedula.Producer(settings, compression_type="zstd") as sender:
            error = sender.send("t", "never" * 100).exception(PATIENCE_SECONDS)
            assert error is not None
            assert "zstd" in str(error).lower() or "UNSUPPORTED_COMPRESSION_TYPE" in str(error)
        with monedula.Producer(settings, compression_type="lz4") as sender:
            sender.send("t", "lz4").result(PATIENCE_SECONDS)
        assert stored(broker) == [b"lz4"]
