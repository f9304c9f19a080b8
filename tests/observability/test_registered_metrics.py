"""`register_metric` (KIP-1076): metrics of the user's in what clients push to brokers."""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import monedula
import pytest

from tests.observability.pushed import Point, decoded, eventually, receiver, total

OWN = "com.example.jobs"


def points_of(broker: Any, name: str) -> list[Point]:
    pushes = [decoded(push.metrics).points for push in broker.client_metrics()]
    return [points[name] for points in pushes if name in points]


def consumer(settings: dict[str, str]) -> monedula.Consumer:
    made = monedula.Consumer({**settings, "auto.offset.reset": "earliest"})
    made.assign("orders")
    made.poll(0.0)
    return made


def share_consumer(settings: dict[str, str]) -> monedula.ShareConsumer:
    made = monedula.ShareConsumer({**settings, "group.id": "workers"}, "orders")
    made.poll(0.0)
    return made


def producer(settings: dict[str, str]) -> monedula.Producer:
    made = monedula.Producer(settings)
    made.send("orders", b"value").result()
    return made


def admin(settings: dict[str, str]) -> monedula.Admin:
    made = monedula.Admin(settings)
    made.list_topics()
    return made


CLIENTS: dict[str, Callable[[dict[str, str]], Any]] = {
    "consumer": consumer,
    "share consumer": share_consumer,
    "producer": producer,
    "admin": admin,
}


@pytest.mark.parametrize("kind", CLIENTS)
def test_each_client_pushes_a_gauge_and_a_counter(kind: str) -> None:
    done = [0]

    def count() -> int:
        done[0] += 3
        return done[0]

    with receiver() as (broker, settings), CLIENTS[kind](settings) as client:
        client.register_metric(f"{OWN}.waiting", lambda: 2.5, unit="{job}", attributes={"queue": "high", "a": "b"})
        client.register_metric(f"{OWN}.done", count, kind="counter")
        eventually(lambda: len(points_of(broker, f"{OWN}.done")) >= 2, "two pushes")
        waiting, counted = points_of(broker, f"{OWN}.waiting")[0], points_of(broker, f"{OWN}.done")
    assert (waiting.value, waiting.is_sum, waiting.unit) == (2.5, False, "{job}")
    assert waiting.attributes == {"a": "b", "queue": "high"}
    assert [(point.value, point.is_sum, point.is_delta) for point in counted[:2]] == [(3.0, True, True)] * 2


def test_an_admin_pushes_its_own_figures_too() -> None:
    with receiver() as (broker, settings):
        with admin(settings):
            eventually(broker.client_metrics, "a push")
        pushes = broker.client_metrics()
    assert pushes[-1].terminating
    assert total(pushes, "org.apache.kafka.admin.client.request.total") >= 1


def test_only_what_the_broker_asks_for_is_read_and_pushed() -> None:
    read: list[str] = []

    def value_of(name: str) -> float:
        read.append(name)
        return 1.0

    with receiver(metrics=f"{OWN}.a") as (broker, settings), producer(settings) as client:
        client.register_metric(f"{OWN}.b", lambda: value_of("b"))
        client.register_metric(f"{OWN}.a", lambda: value_of("a"))
        eventually(lambda: points_of(broker, f"{OWN}.a"), "a push")
        names = {name for push in broker.client_metrics() for name in decoded(push.metrics).points}
    assert names == {f"{OWN}.a"}
    assert set(read) == {"a"}


def test_nothing_is_read_without_a_push() -> None:
    with receiver(metrics=None) as (_, settings), producer(settings) as client:
        client.register_metric(OWN, lambda: pytest.fail("nobody asked"))
        client.send("orders", b"value").result()


def test_a_metric_of_the_same_name_and_attributes_is_replaced_and_can_be_removed() -> None:
    with receiver() as (broker, settings), producer(settings) as client:
        client.register_metric(OWN, lambda: 1, attributes={"queue": "a"})
        client.register_metric(OWN, lambda: 2, attributes={"queue": "a"})
        eventually(lambda: points_of(broker, OWN), "a push")
        assert {point.value for point in points_of(broker, OWN)} == {2.0}
        assert not client.unregister_metric(OWN)
        assert client.unregister_metric(OWN, attributes={"queue": "a"})
        assert not client.unregister_metric(OWN, attributes={"queue": "a"})
        pushed = len(broker.client_metrics())
        eventually(lambda: len(broker.client_metrics()) >= pushed + 3, "pushes without it")
        assert OWN not in decoded(broker.client_metrics()[-1].metrics).points


def raises() -> float:
    raise RuntimeError("no queue")


@pytest.mark.parametrize(
    ("read", "why"),
    [
        (raises, "its function raised RuntimeError: no queue"),
        (lambda: "many", "its function returned str, not a number"),
        (lambda: float("nan"), "its function returned NaN, not a finite number"),
        (lambda: 10**400, "its function returned a number that is too large for a float"),
    ],
    ids=["raises", "text", "nan", "large"],
)
def test_a_function_that_fails_is_told_of_once_and_stops_nothing(
    read: Callable[[], Any], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "monedula")
    with receiver() as (broker, settings), producer(settings) as client:
        client.register_metric(f"{OWN}.bad", read)
        client.register_metric(f"{OWN}.good", lambda: 1)
        eventually(lambda: len(points_of(broker, f"{OWN}.good")) >= 4, "further pushes")
        client.health()  # hands the log on
        client.send("orders", b"value").result()
        assert points_of(broker, f"{OWN}.bad") == []
    told = [record.getMessage() for record in caplog.records if f"{OWN}.bad" in record.getMessage()]
    assert len(told) == 1
    assert why in told[0]


def test_a_function_that_hangs_delays_one_push_and_holds_up_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "monedula")
    goes_on, calls = threading.Event(), list[int]()

    def hangs() -> float:
        calls.append(1)
        goes_on.wait(60)
        return 1.0

    with receiver() as (broker, settings):
        with producer(settings) as client:
            client.register_metric(f"{OWN}.hangs", hangs)
            client.register_metric(f"{OWN}.good", lambda: 1)
            eventually(lambda: len(points_of(broker, f"{OWN}.good")) >= 4, "further pushes")
            client.send("orders", b"value").result()
            assert len(calls) == 1, "it is not called again while it hangs"
        assert broker.client_metrics()[-1].terminating
        goes_on.set()
    told = [record.getMessage() for record in caplog.records if f"{OWN}.hangs" in record.getMessage()]
    assert len(told) == 1
    assert "does not return" in told[0]


def test_the_last_push_has_them_and_a_closed_client_keeps_no_function() -> None:
    class Job:
        def waiting(self) -> int:
            return 7

    import gc
    import weakref

    job = Job()
    gone = weakref.ref(job)
    with receiver(interval_ms=3_600_000) as (broker, settings):
        with producer(settings) as client:
            client.register_metric(OWN, job.waiting)
            eventually(lambda: client.health()["client_instance_id"], "the subscription")
        (push,) = broker.client_metrics()
        assert push.terminating
        assert decoded(push.metrics).points[OWN].value == 7
        del job
        eventually(lambda: (gc.collect(), gone() is None)[1], "the function is given up")


def test_clients_of_an_event_loop_push_them_too() -> None:
    async def work(settings: dict[str, str]) -> None:
        async with (
            monedula.AsyncProducer(settings) as sends,
            monedula.AsyncConsumer(settings) as reads,
            monedula.AsyncAdmin(settings) as manages,
        ):
            for name, client in (("producer", sends), ("consumer", reads), ("admin", manages)):
                client.register_metric(f"{OWN}.{name}", lambda: 1)
            reads.assign("orders")
            await sends.send("orders", b"value")
            await manages.list_topics()
            await reads.poll(0.5)
            while not all(points_of(broker, f"{OWN}.{name}") for name in ("producer", "consumer", "admin")):
                await asyncio.sleep(0.02)

    with receiver() as (broker, settings):
        asyncio.run(asyncio.wait_for(work(settings), 60))
        assert sum(push.terminating for push in broker.client_metrics()) == 3


@pytest.mark.parametrize(
    ("arguments", "keywords", "named"),
    [
        (("", lambda: 1), {}, "name"),
        (("org.apache.kafka.consumer.mine", lambda: 1), {}, "the client's own begin with"),
        (("monedula.mine", lambda: 1), {}, "the client's own begin with"),
        ((OWN, 5), {}, "read"),
        ((OWN, lambda: 1), {"kind": "histogram"}, "'gauge' or 'counter'"),
        ((OWN, lambda: 1), {"unit": 3}, "unit"),
        ((OWN, lambda: 1), {"attributes": {"queue": 1}}, "attributes"),
        ((OWN, lambda: 1), {"attributes": 0}, "attributes"),
        ((OWN, lambda: 1), {"attributes": []}, "attributes"),
    ],
)
def test_arguments_of_other_types_are_refused(arguments: tuple[Any, ...], keywords: dict[str, Any], named: str) -> None:
    with (
        monedula.Admin(bootstrap_servers="localhost:1") as client,
        pytest.raises(monedula.ArgumentError, match=named),
    ):
        client.register_metric(*arguments, **keywords)


@pytest.mark.parametrize("kind", [monedula.Admin, monedula.Producer, monedula.Consumer])
def test_a_closed_client_takes_no_metric(kind: Any) -> None:
    client = kind(bootstrap_servers="localhost:1")
    client.close()
    with pytest.raises(monedula.errors.ClosedError, match="closed"):
        client.register_metric(OWN, lambda: 1)
    assert not client.unregister_metric(OWN)
