"""The driver's client: how often it asks."""

import logging
from typing import Any

import pytest
from monedula.errors import BrokerConnectionError, KafkaError
from monedula.spark.source.cluster import Cluster
from monedula.spark.source.options import SourceOptions
from monedula.testing import Broker

HOUR_MS = 3_600_000


def cluster_of(servers: str, **options: Any) -> Cluster:
    given = {
        "kafka.bootstrap.servers": servers,
        "subscribe": "orders",
        "kafka.bootstrap.timeout.ms": 2_000,
        "kafka.default.api.timeout.ms": 2_000,
    }
    return Cluster(SourceOptions.parse({name: str(value) for name, value in {**given, **options}.items()}))


def test_a_host_that_never_answered_is_tried_for_one_bootstrap_timeout() -> None:
    # A second attempt would come in an hour.
    cluster = cluster_of("127.0.0.1:1", **{"fetchOffset.retryIntervalMs": HOUR_MS})
    with pytest.raises(BrokerConnectionError, match=r"127\.0\.0\.1:1"):
        cluster.layout()


def test_brokers_that_have_answered_are_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    with Broker(topics={"orders": 1}) as broker:
        cluster = cluster_of(broker.bootstrap_servers, **{"fetchOffset.retryIntervalMs": 0})
        assert len(cluster.layout().leaders) == 1
    with caplog.at_level(logging.WARNING, "monedula.spark"), pytest.raises(KafkaError):
        cluster.layout()
    cluster.close()
    assert "Attempt 2 to ask Kafka" in caplog.text
