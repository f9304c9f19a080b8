"""A real Kafka that advertises a name which only a proxy knows: nothing reaches it in another way."""

from collections.abc import Iterator
from typing import Any

import pytest
from monedula.errors import AuthenticationError

from tests.conftest import give_up
from tests.kafka import KafkaUnavailable
from tests.kafka.secured import LISTENERS, SecuredKafka
from tests.security.proxy import UNKNOWN_NAME, ForwardProxy
from tests.security.real.clients import CLIENTS, administer

pytestmark = pytest.mark.jvm
TOPIC = "orders"


class HiddenKafka(SecuredKafka):
    """A node whose listeners with TLS or SASL are known by the name alone."""

    def _properties(self, node: Any) -> dict[str, object]:
        properties = super()._properties(node)
        advertised = [f"PLAINTEXT://{node.host}:{node.port}"]
        advertised += [f"{name}://{UNKNOWN_NAME}:{port}" for name, port in self.ports[node.id].items()]
        return {**properties, "advertised.listeners": ",".join(advertised)}

    def bootstrap_of(self, listener: str) -> str:
        return ",".join(f"{UNKNOWN_NAME}:{ports[listener]}" for ports in self.ports.values())


@pytest.fixture(scope="module")
def hidden() -> Iterator[SecuredKafka]:
    try:
        with HiddenKafka(1, kerberos=False) as kafka:
            kafka.helper.create_topic(TOPIC, partitions=1)
            yield kafka
    except KafkaUnavailable as error:
        give_up(error)


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_every_client_goes_through_the_proxy(hidden: SecuredKafka, listener: str, scheme: str) -> None:
    with ForwardProxy({UNKNOWN_NAME: "127.0.0.1"}, login=("anna", "canary")) as proxy:
        # The certificate is not for the name, which the next test is about.
        unnamed = {"ssl.endpoint.identification.algorithm": ""} if LISTENERS[listener].protocol == "SASL_SSL" else {}
        settings = hidden.client_settings(listener) | unnamed | {"proxy.url": proxy.url(scheme)}
        brought = {kind: does(settings, TOPIC) for kind, does in CLIENTS.items()}
        assert brought["admin"] == 1
        assert brought["consumer"] >= 1
        assert {asked.partition(":")[0] for asked in proxy.asked} == {UNKNOWN_NAME}


def test_the_certificate_has_to_be_for_the_brokers_name(hidden: SecuredKafka) -> None:
    with ForwardProxy({UNKNOWN_NAME: "127.0.0.1"}) as proxy:
        settings = hidden.client_settings("SASL_SSL") | {"proxy.url": proxy.url("socks5h")}
        with pytest.raises(AuthenticationError, match=f"not for {UNKNOWN_NAME}"):
            administer(settings, TOPIC)
