"""`monedula.prometheus`: what a scrape says is what the clients' own figures say, once for each time series."""

import gc
import json
import re
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from time import time
from typing import Any

import monedula
import monedula.prometheus as metrics
import pytest
from monedula.prometheus import families
from monedula.testing import Broker
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.observability.metric_names import metric_names

PARTITIONS = 2
RECORDS = 6

LEFT_OUT = frozenset(
    {
        *(f"group_{what}_seconds_last" for what in ("commit", "heartbeat", "join", "rebalance", "sync")),
        *(f"group_{what}_seconds_max" for what in ("heartbeat", "join", "sync")),
        "group_reserved_seconds_left",
    }
)
"""Keys of `metrics()` that no family shows."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": PARTITIONS, "orders-copy": 1, "retried": 1}) as broker:
        for partition in range(PARTITIONS):
            broker.append("orders", [("key", "value")] * (RECORDS // PARTITIONS), partition=partition)
        yield broker


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def reader(broker: Broker, group: str = "etl", **settings: Any) -> monedula.Consumer:
    settings = {"bootstrap_servers": broker.bootstrap_servers, "group_id": group, **settings}
    return monedula.Consumer(topics="orders", auto_offset_reset="earliest", **settings)


def samples(registry: CollectorRegistry, name: str) -> dict[tuple[str, ...], float]:
    """The values of a metric by the values of its labels, in their order on the wire."""
    found: dict[tuple[str, ...], float] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            if sample.name == name:
                assert tuple(sample.labels.values()) not in found, "the same time series twice"
                found[tuple(sample.labels.values())] = sample.value
    return found


def read_all(consumer: monedula.Consumer) -> int:
    rows = 0
    for batch in consumer.batches(timeout=5.0):
        rows += len(batch)
        if rows % RECORDS == 0:
            break
    return rows


def test_a_scrape_has_the_figures_of_every_client(broker: Broker, registry: CollectorRegistry) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "shop"}
    with (
        reader(broker, client_id="shop") as consumer,
        monedula.Producer(settings) as producer,
        monedula.Admin(settings) as admin,
    ):
        metrics.watch(consumer, producer, admin, registry=registry)
        read_all(consumer)
        producer.send("orders-copy", b"value").result()
        admin.list_topics()
        assert samples(registry, "monedula_records_delivered_total") == {("shop", "etl", "consumer"): RECORDS}
        assert samples(registry, "monedula_records_acknowledged_total") == {("shop", "", "producer"): 1}
        requests = samples(registry, "monedula_requests_sent_total")
        assert set(requests) == {("shop", "etl", "consumer"), ("shop", "", "producer"), ("shop", "", "admin")}
        assert requests["shop", "", "admin"] == admin.metrics()["requests_sent"]
        assert samples(registry, "monedula_group_owned_partitions") == {("shop", "etl", "consumer"): PARTITIONS}
        assert samples(registry, "monedula_group_state") == {("shop", "etl", "consumer", "Stable"): 1}
        assert samples(registry, "monedula_failing_seconds")["shop", "", "producer"] == 0


def test_topics_that_do_not_exist_are_counted(broker: Broker, registry: CollectorRegistry) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "shop", "group.id": "etl"}
    with monedula.Consumer(settings, topics=["ordres", "odrers"]) as consumer:
        metrics.watch(consumer, registry=registry)
        while len(consumer.health()["group"]["unknown_topics"]) < 2:
            consumer.poll(0.1)
        assert samples(registry, "monedula_group_unknown_topics") == {("shop", "etl", "consumer"): 2}


def test_every_counter_of_a_client_is_in_a_family_or_left_out_on_purpose(broker: Broker) -> None:
    """A new counter goes into the table of `monedula.prometheus.families`."""
    with reader(broker, "counters") as consumer:
        consumer.poll(5.0)
        counted = set(consumer.metrics())
    assert counted - LEFT_OUT == {family.source for family in families.FAMILIES} & counted
    assert counted >= LEFT_OUT


def test_a_share_consumer_has_its_figures_and_its_runs(broker: Broker, registry: CollectorRegistry) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "shop", "group.id": "workers"}
    verdicts = iter(["reject", "release", *["skip"] * RECORDS])

    def fail(_: monedula.Record) -> None:
        raise ValueError

    with monedula.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.alter_configs({("group", "workers"): {"share.auto.offset.reset": "earliest"}})
    with monedula.ShareConsumer(settings, "orders") as consumer:
        metrics.watch(consumer, registry=registry)
        consumer.run(fail, on_error=lambda *_: next(verdicts), timeout=1.0)
        labels = ("shop", "workers", "share_consumer")
        assert samples(registry, "monedula_run_rejected_records_total") == {labels: 1}
        assert samples(registry, "monedula_run_released_records_total") == {labels: 1}
        assert samples(registry, "monedula_run_skipped_records_total") == {labels: RECORDS - 1}
        assert samples(registry, "monedula_records_acknowledged_total") == {labels: RECORDS + 1}
        assert samples(registry, "monedula_records_unacknowledged_total") == {labels: 0}
        assert samples(registry, "monedula_records_in_hand") == {labels: 0}
        assert samples(registry, "monedula_group_assigned_partitions") == {labels: PARTITIONS}
        assert samples(registry, "monedula_group_state") == {(*labels, "Stable"): 1}
        known = {family.source for family in families.FAMILIES}
        assert {name for name in consumer.metrics() if name.startswith("run_")} <= known


def test_every_gauge_of_the_table_is_in_the_health_of_a_client(broker: Broker, registry: CollectorRegistry) -> None:
    share_group = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "share"}
    with (
        reader(broker, "gauges") as consumer,
        monedula.ShareConsumer(share_group, "orders") as share_consumer,
        monedula.Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        consumer.poll(5.0)
        share_consumer.poll(0.0)
        metrics.watch(consumer, share_consumer, producer, registry=registry, detail="partition")
        text = generate_latest(registry).decode()
    shown = set(re.findall(r"^(monedula_\w+)\{", text, flags=re.MULTILINE))
    # A broker's first group may have its coordinator at the second attempt.
    there_with_errors = {"monedula_retried_errors_total"}
    there_with_tls = {"monedula_certificate_expiry_timestamp_seconds"}
    there_with_a_run = {name for name in metric_names() if name.startswith(("monedula_run_", "monedula_landing_"))}
    assert metric_names() - shown - there_with_errors == there_with_tls | there_with_a_run


def test_a_run_has_its_families(broker: Broker, registry: CollectorRegistry) -> None:
    failed: set[int] = set()

    def handle(record: monedula.Record) -> None:
        if record.partition == 1 or (record.offset == 0 and not failed):
            failed.add(record.offset or 0)
            raise ValueError

    with reader(broker, "run") as consumer:
        retry = monedula.Retry(1, backoff=0)
        consumer.run(handle, until="latest", order="partition", retries=retry, on_error=_skip_after_a_retry)
        metrics.watch(consumer, registry=registry)
        counted = consumer.metrics()
        of_consumers = [family for family in families.FAMILIES if "consumer" in family.roles]
        run = {family for family in of_consumers if family.name.startswith("monedula_run_")}
        assert {family.source for family in run} == {name for name in counted if name.startswith("run_")}
        for family in run:
            (value,) = samples(registry, family.name + ("_total" if family.kind == "counter" else "")).values()
            assert value == counted[family.source]
    assert counted["run_handled"] + counted["run_skipped"] == RECORDS
    assert counted["run_skipped"] == RECORDS // PARTITIONS
    assert counted["run_retries"] > 0


def _skip_after_a_retry(_record: monedula.Record, _error: Exception, attempts: int) -> str | None:
    return "skip" if attempts > 1 else None


@pytest.mark.parametrize("detail", ["client", "topic", "partition"])
def test_lag_is_told_for_each_partition_only_if_asked(
    broker: Broker, registry: CollectorRegistry, detail: metrics.Detail
) -> None:
    with monedula.Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="lag") as consumer:
        consumer.assign({("orders", partition): 0 for partition in range(PARTITIONS)})
        for batch in consumer.batches(max_rows=1):
            consumer.pause(*batch.offsets)  # so that the next one is of the other partition
            if len(consumer.paused()) == PARTITIONS:
                break
        metrics.watch(consumer, registry=registry, detail=detail)
        lags = {(str(index), "consumer", topic): lag for (topic, index), lag in consumer.lag().items()}
        assert set(lags.values()) == {RECORDS // PARTITIONS - 1}
        expected = {
            "client": {("consumer",): sum(filter(None, lags.values()))},
            "topic": {("consumer", "orders"): sum(filter(None, lags.values()))},
            "partition": lags,
        }
        shown = samples(registry, "monedula_consumer_lag_records")
        assert {labels[2:]: lag for labels, lag in shown.items()} == expected[detail]
        assert bool(samples(registry, "monedula_consumer_position")) == (detail == "partition")


def test_lag_of_finished_records_is_that_of_the_group(broker: Broker, registry: CollectorRegistry) -> None:
    """Under `run` all that is read waits for its handler: the lag of the position is 0."""
    seen: list[tuple[float, float]] = []

    def lags() -> tuple[float, float]:
        lag, finished = (samples(registry, f"monedula_consumer_{name}lag_records") for name in ("", "finished_"))
        return sum(lag.values()), sum(finished.values())

    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "handled", "auto.offset.reset": "earliest"}
    with monedula.Consumer(settings, topics=["orders"]) as consumer:
        metrics.watch(consumer, registry=registry)

        consumer.run(lambda _: seen.append(lags()), concurrency=1, until="latest")
        with monedula.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            told = sum(each.lag or 0 for each in admin.group_lag("handled").values())
        assert lags() == (0, told) == (0, 0)
    assert seen[-1][0] == 0
    assert all(position < finished for position, finished in seen)


def test_watching_again_shows_nothing_twice(broker: Broker, registry: CollectorRegistry) -> None:
    with monedula.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        first = metrics.watch(producer, registry=registry)
        producer.send("orders-copy", b"value").result()
        assert metrics.watch(producer, producer, registry=registry) is first
        assert samples(registry, "monedula_records_acknowledged_total") == {("monedula", "", "producer"): 1}


def test_a_second_collector_in_the_registry_is_refused(registry: CollectorRegistry) -> None:
    metrics.watch(registry=registry)
    with pytest.raises(ValueError, match="Duplicated"):
        registry.register(metrics.Collector())


def test_unwatch_makes_room_for_another_detail(registry: CollectorRegistry) -> None:
    metrics.watch(registry=registry)
    with pytest.raises(monedula.ArgumentError, match="'topic'"):
        metrics.watch(registry=registry, detail="partition")
    metrics.unwatch(registry)
    assert metrics.watch(registry=registry, detail="partition").detail == "partition"


def test_clients_with_the_same_labels_are_summed_up(broker: Broker, registry: CollectorRegistry) -> None:
    producers = [monedula.Producer(bootstrap_servers=broker.bootstrap_servers) for _ in range(3)]
    metrics.watch(*producers, registry=registry)
    for producer in producers:
        producer.send("orders-copy", b"value").result()
    assert samples(registry, "monedula_records_acknowledged_total") == {("monedula", "", "producer"): 3}
    for producer in producers:
        producer.close()


def test_a_counter_does_not_decrease_when_a_client_is_collected(broker: Broker, registry: CollectorRegistry) -> None:
    for sent in range(1, 4):
        producer = monedula.Producer(bootstrap_servers=broker.bootstrap_servers)
        metrics.watch(producer, registry=registry)
        producer.send("orders-copy", b"value").result()
        producer.close()
        assert samples(registry, "monedula_records_acknowledged_total") == {("monedula", "", "producer"): sent}
        del producer
        gc.collect()
        assert samples(registry, "monedula_records_acknowledged_total") == {("monedula", "", "producer"): sent}
        assert samples(registry, "monedula_connections") == {}


def test_no_client_is_kept_alive_and_no_thread_is_started(broker: Broker, registry: CollectorRegistry) -> None:
    producer = monedula.Producer(bootstrap_servers=broker.bootstrap_servers)
    before = threading.active_count()
    collector = metrics.watch(producer, registry=registry)
    generate_latest(registry)
    assert threading.active_count() == before
    gone = weakref.ref(producer)
    producer.close()
    del producer
    gc.collect()
    assert gone() is None
    assert list(collector.collect()) is not None


def test_errors_that_are_retried_are_told_by_name(broker: Broker, registry: CollectorRegistry) -> None:
    with monedula.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        metrics.watch(producer, registry=registry)
        broker.fault(api="Produce", error="NOT_LEADER_OR_FOLLOWER", topic="retried", count=1)
        producer.send("retried", b"value").result()
        retried = samples(registry, "monedula_retried_errors_total")
    assert retried == {("monedula", "NOT_LEADER_OR_FOLLOWER", "", "producer"): 1}


def test_it_is_told_when_the_certificate_of_a_client_expires(registry: CollectorRegistry) -> None:
    with Broker(topics={"orders": 1}, security="SSL", client_auth="required") as broker:
        settings = broker.client_settings("anna")
        with monedula.Producer(settings) as producer, monedula.Producer(settings) as other:
            metrics.watch(producer, other, registry=registry)
            producer.send("orders", b"value").result()
            expiry = samples(registry, "monedula_certificate_expiry_timestamp_seconds")
            assert producer.health()["certificate_expires"] == expiry["monedula", "", "producer"] > time()


async def test_clients_for_asyncio_are_watched_too(broker: Broker, registry: CollectorRegistry) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    async with (
        monedula.AsyncProducer(settings) as producer,
        monedula.AsyncConsumer(settings) as consumer,
        monedula.AsyncAdmin(settings) as admin,
    ):
        metrics.watch(producer, consumer, admin, registry=registry)
        await producer.send("orders-copy", b"value")
        assert {labels[2] for labels in samples(registry, "monedula_requests_sent_total")} == {
            "consumer",
            "producer",
            "admin",
        }


def test_what_is_no_client_is_refused(registry: CollectorRegistry) -> None:
    with pytest.raises(monedula.ArgumentError, match="dict is not a consumer"):
        metrics.watch({}, registry=registry)  # type: ignore[arg-type]
    with pytest.raises(monedula.ArgumentError, match="'topic'"):
        metrics.Collector(detail="topics")  # type: ignore[arg-type]
    metrics.watch(registry=registry)
    with pytest.raises(monedula.ArgumentError, match="detail='topics': expected one of 'client', 'topic', 'partition'"):
        metrics.watch(registry=registry, detail="topics")  # type: ignore[arg-type]


FORKED = """
import os, sys, traceback
import monedula, monedula.prometheus
from monedula.testing import Broker
from prometheus_client import generate_latest

broker = Broker(topics={"orders": 1})
servers = broker.bootstrap_servers
parent = monedula.Producer(bootstrap_servers=servers, client_id="parent")
monedula.prometheus.watch(parent)
parent.send("orders", b"value").result()
assert b'monedula_records_acknowledged_total{client_id="parent"' in generate_latest()
sys.stdout.flush()
child = os.fork()
if not child:
    try:
        producer = monedula.Producer(bootstrap_servers=servers, client_id="child")
        monedula.prometheus.watch(producer)
        producer.send("orders", b"value").result()
        print(generate_latest().decode())
        sys.stdout.flush()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_forked_process_shows_its_own_clients_only() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    acknowledged = re.findall(r'^monedula_records_acknowledged_total\{client_id="(\w+)"', shown, flags=re.MULTILINE)
    assert acknowledged == ["child"]


def expressions() -> Iterator[tuple[str, str]]:
    """The expressions of the dashboard and of the rules, each with the title of its panel or alert."""
    from ruamel.yaml import YAML

    for panel in json.loads(metrics.dashboard())["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for variable in json.loads(metrics.dashboard())["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["definition"]
    for group in YAML(typ="safe").load(metrics.alert_rules())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


def test_dashboard_and_rules_name_metrics_and_labels_that_exist() -> None:
    known = metric_names("topic")
    labels = {*["role", "client_id", "group", "topic", "error", "state", "job", "instance"]}
    found = list(expressions())
    assert len(found) > 30
    for title, expression in found:
        names = re.findall(r"\bmonedula_\w+", expression)
        assert names, title
        assert set(names) <= known, title
        used = re.findall(r"by \(([^)]*)\)", expression) + re.findall(r"(\w+)=~", expression)
        assert {label.strip() for part in used for label in part.split(",")} <= labels, title
        assert expression.count("(") == expression.count(")"), title


def test_labels_in_legends_and_summaries_are_those_that_are_left() -> None:
    from ruamel.yaml import YAML

    for panel in json.loads(metrics.dashboard())["panels"]:
        for target in panel.get("targets", []):
            kept = {
                label.strip() for part in re.findall(r"by \(([^)]*)\)", target["expr"]) for label in part.split(",")
            }
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= kept, panel["title"]
    for rule in YAML(typ="safe").load(metrics.alert_rules())["groups"][0]["rules"]:
        kept = {label.strip() for part in re.findall(r"by \(([^)]*)\)", rule["expr"]) for label in part.split(",")}
        text = " ".join(rule["annotations"].values())
        assert set(re.findall(r"\$labels\.(\w+)", text)) <= kept, rule["alert"]


@pytest.mark.parametrize(("what", "text"), [("dashboard", metrics.dashboard), ("alerts", metrics.alert_rules)])
def test_the_files_are_printed_by_the_module(what: str, text: Any) -> None:
    command = [sys.executable, "-m", "monedula.prometheus", what]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout == text()
