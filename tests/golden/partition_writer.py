"""Writes where Kafka's own partitioner and librdkafka's put keys, for several numbers of partitions."""

import base64
import json
import pathlib
import random
import subprocess
import sys

from confluent_kafka import Message, Producer
from monedula.testing import Broker

from tests.kafka import jars

COUNTS = (1, 2, 3, 7, 12, 64, 1000)
RDKAFKA = ("consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random")
TEXTS = ("a", "kavka", "čáp ☂ 鸛 🐦", "user-00000042", "\0", "0" * 64)
BYTES_MAX = 64
OF_EACH_LENGTH = 3
# So many that they practically never fall on one of 64 partitions by chance.
TRIES = 20
TRIED_COUNT = 64
DELIVERY_SECONDS = 60.0


def keys() -> list[bytes | None]:
    """Null, empty, texts, and bytes of every length up to 64; then longer ones with each tail of a murmur2 block."""
    draw = random.Random(280)
    lengths = [length for length in range(1, BYTES_MAX + 1) for _ in range(OF_EACH_LENGTH)] + [1000, 1001, 1002, 1003]
    # All bits set, which shows whether bytes count as unsigned.
    edges = [b"\xff" * length for length in range(1, 9)] + [b"\x80" * length for length in range(1, 9)]
    return [None, b"", *(text.encode() for text in TEXTS), *edges, *(draw.randbytes(length) for length in lengths)]


def of_java(wanted: list[bytes | None]) -> dict[bytes | None, list[int] | None]:
    """By `BuiltInPartitioner`; a null key is not hashed there."""
    hashed = [key for key in wanted if key is not None]
    source = pathlib.Path(__file__).with_name("PartitionWriter.java")
    command = [jars.java(), "-cp", jars.class_path(), str(source), *map(str, COUNTS)]
    given = "".join(base64.b64encode(key).decode() + "\n" for key in hashed)
    said = subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout.splitlines()
    return {None: None, **{key: json.loads(line) for key, line in zip(hashed, said, strict=True)}}


def of_rdkafka(bootstrap: str, partitioner: str, wanted: list[bytes | None]) -> dict[bytes | None, list[int] | None]:
    """By producing them, and looking where they came to stand."""
    settings: dict[str, object] = {"bootstrap.servers": bootstrap, "partitioner": partitioner}
    # Otherwise the random partition stays the same for a while.
    producer = Producer({**settings, "sticky.partitioning.linger.ms": 0})
    found: dict[tuple[int, bytes | None], list[int]] = {(count, key): [] for count in COUNTS for key in wanted}

    def delivered(count: int, error: object, message: Message) -> None:
        partition = message.partition()
        if error is not None or partition is None:
            raise RuntimeError(f"{partitioner}: {error}")
        key = message.key()
        found[count, key if key is None or isinstance(key, bytes) else key.encode()].append(partition)

    for count, key in list(found):
        for _ in range(TRIES if not key and count == TRIED_COUNT else 1):
            producer.produce(
                f"of-{count}",
                b"",
                key,
                on_delivery=lambda error, message, count=count: delivered(count, error, message),
            )
        producer.poll(0)
    if producer.flush(DELIVERY_SECONDS):
        raise RuntimeError(f"{partitioner}: not everything was delivered")
    drawn = {key for key in wanted if len(set(found[TRIED_COUNT, key])) > 1}
    return {key: None if key in drawn else [found[count, key][0] for count in COUNTS] for key in wanted}


def main(folder: str) -> None:
    wanted = list(dict.fromkeys(keys()))
    of = {"java": of_java(wanted)}
    with Broker(topics={f"of-{count}": count for count in COUNTS}) as broker:
        for partitioner in RDKAFKA:
            of[partitioner] = of_rdkafka(broker.bootstrap_servers, partitioner, wanted)
    lines = [json.dumps({"counts": COUNTS})]
    for key in wanted:
        text = None if key is None else base64.b64encode(key).decode()
        lines.append(json.dumps({"key": text, **{partitioner: places[key] for partitioner, places in of.items()}}))
    pathlib.Path(folder, "partitions.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
