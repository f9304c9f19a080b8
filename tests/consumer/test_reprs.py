"""What objects say of themselves, in a shell and in a notebook."""

import asyncio
import os
from datetime import UTC, datetime
from typing import Any

import monedula
import pytest
from monedula import _reprs
from monedula.admin import Admin, AsyncAdmin
from monedula.testing import Broker


def settings(broker: Broker) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}


def test_a_stream_says_how_far_it_is() -> None:
    with Broker(topics={"users": 4}) as broker:
        for partition in range(4):
            broker.append("users", ["x"] * 500, partition=partition)
        with monedula.read(settings(broker), "users", max_rows=500) as stream:
            for _ in range(2):
                assert repr(stream) == "<monedula.RecordStream of users: 4 partitions, 0 of 2,000 offsets>"
            read = next(stream).num_rows
            assert repr(stream) == f"<monedula.RecordStream of users: 4 partitions, {read:,} of 2,000 offsets>"
            assert stream.progress == (read, 2000)
        assert repr(stream).endswith(f"{read:,} of 2,000 offsets, closed>")
        stream = monedula.read(settings(broker), [("users", 1)])
        list(stream)
        assert repr(stream) == "<monedula.RecordStream of users: 1 partition, 500 of 500 offsets, closed>"
        stream = monedula.read(settings(broker), "users")
        exported = stream.__arrow_c_stream__()
        assert repr(stream).endswith("0 of 2,000 offsets, handed out>")
        del exported


def test_a_notebook_shows_the_offsets_of_a_stream_and_reads_nothing() -> None:
    with Broker(topics={"users": 12}) as broker:
        broker.append("users", ["a", "b"], partition=3)
        with monedula.read(settings(broker), "users") as stream:
            shown: Any = stream
            html = shown._repr_html_()
            assert html.startswith("<table><caption>&lt;monedula.RecordStream of users: 12 partitions, 0 of 2 offsets")
            assert "<tr><td>users</td><td>3</td><td>0</td><td>2</td></tr>" in html
            assert html.endswith("<p>10 of 12 rows</p>")
            assert sum(batch.num_rows for batch in stream) == 2


def test_consumers_say_what_they_read() -> None:
    with Broker(topics={"orders": 3}, settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        at = broker.bootstrap_servers
        broker.append("orders", ["a", "b"])
        with monedula.Consumer({**settings(broker), "group.id": "etl"}, topics=["orders"]) as consumer:
            start = f"<monedula.Consumer of {at}: group etl, topics orders, "
            assert repr(consumer).startswith(start)
            assert repr(consumer).endswith(" partitions, 0 records delivered>")
            while not consumer.poll(timeout=5.0):
                pass
            assert repr(consumer) == f"{start}3 partitions, 2 records delivered>"
            consumer.subscribe(pattern="ord.*")
            assert "group etl, topics by a pattern" in repr(consumer)
        assert repr(consumer) == f"<monedula.Consumer of {at}: group etl, topics by a pattern, closed>"

        async def main() -> None:
            async with monedula.AsyncConsumer(settings(broker)) as other:
                other.assign([("orders", 0)])
                assert repr(other) == f"<monedula.AsyncConsumer of {at}: 1 partition, 0 records delivered>"
            assert repr(other) == f"<monedula.AsyncConsumer of {at}: closed>"

        asyncio.run(main())


def test_producers_say_how_far_they_are() -> None:
    with Broker(topics={"orders": 1}) as broker:
        at = broker.bootstrap_servers
        with monedula.Producer(settings(broker)) as producer:
            assert repr(producer) == f"<monedula.Producer of {at}: 0 records acknowledged>"
            producer.send("orders", "a").result()
            assert repr(producer) == f"<monedula.Producer of {at}: 1 record acknowledged>"
            broker.fault(api="Produce", error="INVALID_RECORD", count=1)
            assert producer.send("orders", "b").exception() is not None
            assert repr(producer) == f"<monedula.Producer of {at}: 1 record acknowledged, 1 failed>"
        assert repr(producer) == f"<monedula.Producer of {at}: 1 record acknowledged, 1 failed, closed>"


def test_admins_say_of_which_brokers() -> None:
    servers = ",".join(f"broker-{number}:9092" for number in range(5))
    with Admin({"bootstrap.servers": servers}) as admin:
        assert repr(admin) == "<monedula.Admin of broker-0:9092, broker-1:9092, broker-2:9092 and 2 more>"
    assert repr(admin).endswith(" and 2 more: closed>")
    asynchronous = AsyncAdmin({"bootstrap.servers": "127.0.0.1:1"})
    assert repr(asynchronous) == "<monedula.AsyncAdmin of 127.0.0.1:1>"
    asyncio.run(asynchronous.close())
    assert repr(asynchronous) == "<monedula.AsyncAdmin of 127.0.0.1:1: closed>"


def test_a_class_of_the_users_own_has_its_name() -> None:
    class Orders(monedula.Consumer):
        pass

    with Orders({"bootstrap.servers": "127.0.0.1:1"}) as orders:
        assert repr(orders) == "<tests.Orders of 127.0.0.1:1: 0 partitions, 0 records delivered>"


@pytest.mark.parametrize("kind", [monedula.Consumer, monedula.AsyncConsumer, Admin, AsyncAdmin])
def test_an_object_whose_constructor_failed_has_a_repr(kind: Any) -> None:
    made = kind.__new__(kind)
    with pytest.raises(monedula.ConfigError):
        made.__init__({"bootstrap.server": "localhost:9092"})
    assert repr(made) == f"<monedula.{kind.__name__}>"


def test_clients_of_the_parent_have_a_repr_in_a_forked_child() -> None:
    with (
        Broker(topics={"orders": 1}) as broker,
        monedula.Producer(settings(broker)) as producer,
        monedula.Consumer(settings(broker)) as consumer,
        monedula.read(settings(broker), "orders") as stream,
    ):
        at = broker.bootstrap_servers
        wanted = [f"<monedula.{kind} of {at}>" for kind in ("Producer", "Consumer")] + [repr(stream)]
        child = os.fork()
        if child == 0:
            try:
                os._exit([repr(producer), repr(consumer), repr(stream)] != wanted)
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0


def test_a_frame_and_a_dataset_of_topics_read_nothing() -> None:
    with Broker(topics={"orders": 1, "users": 1}) as broker:
        dataset: Any = monedula.dataset(settings(broker), ["orders", "users"])
        frame: Any = monedula.scan(settings(broker), "orders")
        columns = "key, value, topic, partition, offset, timestamp, timestampType"
        assert repr(dataset) == f"<monedula.TopicDataset of orders, users: {columns}>"
        import pyarrow.compute as pc

        young = dataset.filter(pc.field("offset") > 7)
        assert repr(young) == f"<monedula.TopicDataset of orders, users: {columns}, rows with (offset > 7)>"
        for shown in (repr(frame), frame._repr_html_()):
            assert shown
        assert broker.requests() == []


def test_a_notebook_shows_the_first_rows_of_what_an_admin_finds() -> None:
    with Broker(topics={f"topic-{number:02}": 2 for number in range(12)}) as broker, Admin(settings(broker)) as admin:
        topics: Any = admin.list_topics()
        html = topics._repr_html_()
        assert html.startswith("<table><caption>Topics: 12 rows</caption><thead><tr><th>topic</th><th>topic_id</th>")
        assert html.count("<tr>") == 11
        assert html.endswith("<p>10 of 12 rows</p>")
        found: Any = admin.describe_topics(["topic-00", "topic-99"], errors="return")
        assert "TopicsDescribed: 2 rows, 1 error" in found._repr_html_()


def test_cells_are_readable_short_and_escaped() -> None:
    cells = {
        "<b>": "&lt;b&gt;",
        b'{"name": "J\xc3\xbcrgen"}': "{&quot;name&quot;: &quot;Jürgen&quot;}",
        b"\xff\x00": "b&#x27;\\xff\\x00&#x27;",
        b"\x00\x01": "b&#x27;\\x00\\x01&#x27;",
        "x" * 61: "x" * 59 + "…",
        None: "None",
        1.5: "1.5",
        datetime(2026, 11, 21, 10, tzinfo=UTC): "2026-11-21 10:00:00+00:00",
    }
    for cell, shown in cells.items():
        assert f"<td>{shown}</td>" in _reprs.html_table("a table", ["column"], [[cell]], 1)
    nested = _reprs.html_table("a table", ["<column>"], [[[{"key": "k", "value": b"v"}]]], 1)
    assert "<th>&lt;column&gt;</th>" in nested
    assert "<td>[{&#x27;key&#x27;: &#x27;k&#x27;, &#x27;value&#x27;: &#x27;v&#x27;}]</td>" in nested


def test_a_notebook_shows_the_first_rows_of_a_batch() -> None:
    with Broker(topics={"orders": 1}) as broker:
        values = [b"<b>&", '{"name": "Jürgen"}', b"\xff\x00", None, "x" * 100_000, *["more"] * 7]
        broker.append("orders", values, headers=[("trace", b"1")])
        (batch,) = monedula.read(settings(broker), "orders", columns=["value", "offset", "headers"], headers=True)
    for shown in (batch, batch.head(11)):
        html = shown._repr_html_()
        assert html.startswith(f"<table><caption>{repr(shown).replace('<', '&lt;').replace('>', '&gt;')}</caption>")
        assert "<thead><tr><th>value</th><th>offset</th><th>headers</th></tr></thead>" in html
        assert "<tr><td>&lt;b&gt;&amp;</td><td>0</td>" in html
        assert "<td>{&quot;name&quot;: &quot;Jürgen&quot;}</td>" in html
        assert "<td>b&#x27;\\xff\\x00&#x27;</td>" in html
        assert "<td>None</td><td>3</td>" in html
        assert f"<td>{'x' * 59}…</td>" in html
        assert "<td>[{&#x27;key&#x27;: &#x27;trace&#x27;, &#x27;value&#x27;: &#x27;1&#x27;}]</td>" in html
        assert html.count("<tr>") == 11
        assert html.endswith(f"<p>10 of {shown.num_rows} rows</p>")


def test_a_notebook_shows_typed_and_empty_batches() -> None:
    with Broker(topics={"orders": 1}) as broker:
        broker.append("orders", ['{"id": 1, "at": "2026-11-21T10:00:00Z", "tags": ["<a>"]}'])
        for flatten, cells in (
            (True, "<td>1</td><td>2026-11-21 10:00:00+00:00</td><td>[&#x27;&lt;a&gt;&#x27;]</td>"),
            (False, "<td>{&#x27;id&#x27;: 1, &#x27;at&#x27;: &#x27;2026-11-21 10:00:00+00:00&#x27;, "),
        ):
            value = monedula.Json("id INT, at TIMESTAMP, tags ARRAY<STRING>", flatten=flatten)
            (batch,) = monedula.read(settings(broker), "orders", columns=["value"], value=value)
            assert cells in batch._repr_html_()
            assert "rows</p>" not in batch._repr_html_()
    with monedula.Consumer({"bootstrap.servers": "127.0.0.1:9"}) as consumer:
        consumer.assign(("never-reached", 0))
        assert consumer.poll(timeout=0)._repr_html_().endswith("<tbody></tbody></table>")


def test_one_row_is_no_rows_and_an_empty_batch_has_no_places() -> None:
    with Broker(topics={"orders": 1}) as broker, monedula.Consumer(settings(broker)) as consumer:
        consumer.assign("orders")
        assert repr(consumer.poll(0.0)) == "<monedula.Batch of 0 rows>"
        broker.append("orders", ["a"])
        while not (batch := consumer.poll(1.0)):
            pass
        assert repr(batch) == "<monedula.Batch of 1 row: orders-0 0..1>"
        assert [repr(span) for span in batch.spans] == ["<monedula.Span of 1 row: orders-0 0..1>"]
        assert repr(batch.head(1)).startswith("<monedula.Table of 1 row: key, ")
        with monedula.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            future = producer.send_batch(batch, "orders")
            assert repr(future.report()) == "<monedula.BatchReport of 1 row: 1 acknowledged, 0 failed>"
            assert repr(future) == "<monedula.BatchFuture of 1 row, done>"


def test_a_registry_says_where_it_is_and_no_password() -> None:
    urls = "https://user:secret@registry.example/api/token, http://localhost:8081"
    registry = monedula.SchemaRegistry({"schema.registry.url": urls})
    assert repr(registry) == "<monedula.SchemaRegistry of localhost:8081, registry.example>"
