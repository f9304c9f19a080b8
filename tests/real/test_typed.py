"""Typed columns of what Java's producer wrote to a real Kafka, in every codec; dead letters of the broken records."""

import json
from typing import Any

import monedula
import pyarrow as pa
from monedula import Json, infer

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.kafka.tools import CODECS, Record

SCHEMA = "id bigint, user string, tags array<string>"
COUNT = 2_000


def document(number: int) -> dict[str, Any]:
    return {"id": number, "user": f"ü{number}", "tags": [str(number)] * (number % 3)}


def test_records_of_every_codec_are_decoded(kafka: KafkaCluster, topic: TopicFactory) -> None:
    for codec in CODECS:
        name = topic(1)
        records: list[Record] = [{"value": json.dumps({**document(n), "more": [n]})} for n in range(COUNT)]
        kafka.helper.produce(name, records, codec=codec)
        with monedula.read({"bootstrap.servers": kafka.bootstrap}, name, value=Json(SCHEMA)) as stream:
            table = pa.table(stream)
        assert table["value"].to_pylist() == [document(n) for n in range(COUNT)], codec
        assert table["offset"].to_pylist() == list(range(COUNT)), codec


def test_dead_letters_are_there_before_the_offset_is_committed(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name, letters = topic(2), topic(1)
    values = ["no json" if n % 5 == 0 else json.dumps(document(n)) for n in range(COUNT)]
    kafka.helper.produce(name, [{"value": value, "partition": n % 2} for n, value in enumerate(values)])
    settings = {"bootstrap.servers": kafka.bootstrap, "group.id": name, "auto.offset.reset": "earliest"}
    with monedula.Consumer(settings, [name], value=Json(SCHEMA, dead_letter=letters)) as consumer:
        got: list[int] = []
        for batch in consumer.batches(max_rows=300, until="latest", timeout=60.0):
            got += pa.record_batch(batch)["value"].field("id").to_pylist()  # type: ignore[attr-defined]
            consumer.commit(batch)
        committed = consumer.committed([(name, 0), (name, 1)])
    assert sorted(got) == [n for n in range(COUNT) if n % 5]
    assert [at and at.offset for at in committed.values()] == [COUNT // 2] * 2
    with monedula.read({"bootstrap.servers": kafka.bootstrap}, letters, headers=True) as stream:
        written = [record for batch in stream for record in batch.records()]
    assert {record.value for record in written} == {b"no json"}
    places = {
        (dict(record.headers or [])["__dlq.errors.offset"], dict(record.headers or [])["__dlq.errors.partition"])
        for record in written
    }
    assert len(written) == len(places) == COUNT // 5


def test_the_schema_of_a_topic_is_inferred(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(3)
    records: list[Record] = [{"value": json.dumps(document(n)), "partition": n % 2} for n in range(COUNT)]
    records[-1]["value"] = json.dumps({**document(COUNT - 1), "price": 1.5})
    records.append({"value": "no json", "partition": 1})
    kafka.helper.produce(name, records, codec="zstd")
    settings = {"bootstrap.servers": kafka.bootstrap}
    with monedula.Producer({**settings, "transactional.id": name}) as producer:
        producer.init_transactions()
        # Aborted records say nothing of the schema, nor do the markers that are the ends of the logs.
        for ends, value in ((producer.abort_transaction, b'{"aborted": 1}'), (producer.commit_transaction, None)):
            producer.begin_transaction()
            for partition in range(3):
                producer.send(name, value, key=b"k", partition=partition)
            ends()
    found = infer(settings, name, records=50)
    assert found.ddl == "id BIGINT, price DOUBLE, tags ARRAY<STRING>, user STRING"
    assert found.bad == 1
    assert found.tombstones == 3
    with monedula.read(settings, name, value=Json(found, mode="drop"), columns=["value"]) as stream:
        rows = [row for row in pa.table(stream)["value"].to_pylist() if row is not None]
    expected = [{"price": None, **document(n)} for n in range(COUNT)]
    expected[-1]["price"] = 1.5
    assert sorted(rows, key=lambda row: row["id"]) == expected
