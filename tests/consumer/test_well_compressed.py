"""Records that compress very well, such as zeros: their size is limited, and not how well they compress."""

from typing import Any

import monedula
import pytest
from monedula.testing import Broker

CODECS = ["gzip", "snappy", "lz4", "zstd"]
ZEROS = bytes(40 << 20)
EARLIEST = {"auto.offset.reset": "earliest"}


@pytest.mark.parametrize("codec", CODECS)
def test_zeros_are_taken_and_read(codec: str) -> None:
    with Broker(topics={"zeros": 1}, settings={"message.max.bytes": 100_000_000}) as broker:
        settings: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers}
        large = {"max.request.size": 100_000_000, "buffer.memory": 200_000_000}
        with monedula.Producer({**settings, **large, "compression.type": codec}) as producer:
            producer.send("zeros", ZEROS).result(60)
            producer.send("zeros", b"last").result(60)
        # A budget that is smaller than the record.
        with monedula.Consumer({**settings, **EARLIEST, "queued.max.bytes": 8 << 20}) as consumer:
            consumer.assign("zeros")
            records = consumer.records(timeout=60)
            assert next(records).value == ZEROS
            assert next(records).value == b"last"


def test_the_limits_of_both_sides_name_their_setting() -> None:
    limit = "max.decompressed.batch.bytes"
    with Broker(topics={"zeros": 1}, settings={limit: 10 << 20, "message.max.bytes": 100_000_000}) as broker:
        settings: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers, "compression.type": "zstd"}
        with monedula.Producer({**settings, "max.request.size": 60_000_000}) as producer:
            with pytest.raises(monedula.KafkaError, match=rf"more than the allowed {10 << 20} bytes; raise.*{limit}"):
                producer.send("zeros", ZEROS).result(60)
            producer.send("zeros", bytes(1 << 20)).result(60)
        given = {"bootstrap.servers": broker.bootstrap_servers, **EARLIEST, limit: 1 << 19}
        with monedula.Consumer(given) as consumer:
            consumer.assign("zeros")
            told = rf"decompress to more than the allowed {1 << 19} bytes; raise {limit.replace('.', '[.]')}"
            with pytest.raises(monedula.errors.CorruptRecordError, match=told):
                consumer.poll(timeout=60)
