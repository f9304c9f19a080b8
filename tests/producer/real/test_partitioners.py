"""Keys go where Java's producer and librdkafka put them; `tests/golden/partitions.jsonl` has their partitions."""

import base64
import json
from pathlib import Path

import monedula
import pytest
from monedula.testing import Broker

from tests.producer.real.load import DEADLINE_SECONDS

GOLDEN = Path(__file__).parents[2] / "golden" / "partitions.jsonl"
COUNTS = (7, 64)
TRIES = 20
BATCH_BYTES = 100
"""A batch for about every record, so that those without a key have reason to go elsewhere (KIP-794)."""


@pytest.mark.req("S162")
@pytest.mark.parametrize(
    "name", ["", "murmur2", "murmur2_random", "consistent", "consistent_random", "fnv1a", "fnv1a_random"]
)
def test_keys_are_where_java_and_librdkafka_put_them(name: str) -> None:
    head, *lines = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    places = {line["key"]: line[name or "java"] for line in lines}
    keys = {text: None if text is None else base64.b64decode(text) for text in places}
    settings = {"partitioner": name} if name else {}
    with (
        Broker(topics={f"of-{count}": count for count in COUNTS}) as broker,
        monedula.Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "batch.size": BATCH_BYTES, **settings}
        ) as producer,
    ):
        for count in COUNTS:
            place = head["counts"].index(count)
            futures = {text: producer.send(f"of-{count}", b"", key) for text, key in keys.items()}
            for text, future in futures.items():
                if (expected := places[text]) is not None:
                    assert future.result(DEADLINE_SECONDS).partition == expected[place], (text, count)
        for text, expected in places.items():
            if expected is None:
                drawn = [producer.send("of-64", b"v" * BATCH_BYTES, keys[text]) for _ in range(TRIES)]
                assert len({future.result(DEADLINE_SECONDS).partition for future in drawn}) > 1, text
