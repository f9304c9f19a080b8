"""Settings with a frequent mistake in them: the error names the setting, what is wrong, and what belongs there."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import monedula
import pytest
from monedula.testing import Broker

Settings = dict[str, Any]
TLS = {"bootstrap.servers": "localhost:1", "security.protocol": "SSL"}
LOGIN = {"bootstrap.servers": "localhost:1", "security.protocol": "SASL_PLAINTEXT"}
ENDPOINT = {
    **LOGIN,
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://localhost:1/token",
    "sasl.oauthbearer.client.id": "anna",
    "sasl.oauthbearer.client.secret": "canary",
}
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="anna" password="canary";'
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"

MISTAKES: list[tuple[Settings, str, str, str]] = [
    # Valid settings, the name of the wrong one, its value, and part of the error.
    (TLS, "ssl.ca.location", "~/ca.pem", "~ stands for no directory here: give the whole path"),
    (TLS, "ssl.truststore.location", "~/ca.pem", "~ stands for no directory here"),
    (TLS, "ssl.ca.location", "file:///no/such.pem", "a path is expected, and no URL: leave file:// out"),
    (TLS, "ssl.ca.location", '"/no/such.pem"', "the quotes count as part of the path"),
    (TLS, "ssl.keystore.location", "'/no/such.p12'", "the quotes count as part of the path"),
    (TLS, "ssl.keystore.location", "/", "a directory, and a file is expected"),
    (TLS, "ssl.ca.location", "/dev/zero", "a pipe or a device, and a regular file is expected"),
    (TLS, "ssl.ca.pem", "/etc/ca.pem", r"path of a file, which goes into ssl.truststore.location \(ssl.ca.location\)"),
    (TLS, "ssl.truststore.certificates", "ca.pem", "path of a file, which goes into ssl.truststore.location"),
    (TLS, "ssl.certificate.pem", "/etc/anna.pem", "the key is missing: give ssl.keystore.key"),
    ({**TLS, "ssl.key.pem": "x"}, "ssl.certificate.pem", "~/anna.pem", "which goes into ssl.certificate.location"),
    ({**TLS, "ssl.certificate.pem": PEM}, "ssl.key.pem", "/etc/anna.key", "which goes into ssl.key.location"),
    ({**LOGIN, "sasl.mechanism": "PLAIN"}, "sasl.jaas.config", f"KafkaClient {{\n  {JAAS}\n}};", "between the braces"),
    (ENDPOINT, "https.ca.location", "~/ca.pem", "~ stands for no directory here"),
    (ENDPOINT, "https.ca.pem", "/etc/ca.pem", "neither PEM"),
]
CLIENTS: dict[str, Callable[[Settings], object]] = {
    "consumer": lambda settings: monedula.Consumer(settings),
    "producer": lambda settings: monedula.Producer(settings),
    "admin": lambda settings: monedula.Admin(settings),
    "read": lambda settings: monedula.read(settings, "orders"),
}


@pytest.mark.parametrize(("right", "key", "value", "says"), MISTAKES)
def test_a_mistake_is_named_with_what_belongs_there(right: Settings, key: str, value: str, says: str) -> None:
    system = {} if "ca" in key or "truststore" in key else {"enable.ssl.certificate.verification": False}
    with pytest.raises(monedula.ConfigError, match=says) as raised:
        monedula.Consumer({**right, **(system if right["security.protocol"] == "SSL" else {}), key: value})
    assert raised.value.key == key
    assert key in str(raised.value)
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_a_login_with_tokens_needs_a_source_of_them(client: Callable[[Settings], object]) -> None:
    with pytest.raises(monedula.ConfigError, match=r"needs a source of tokens.*token\.endpoint\.url") as raised:
        client({**LOGIN, "sasl.mechanism": "OAUTHBEARER"})
    assert raised.value.key == "sasl.oauthbearer.token.provider"


@pytest.mark.timeout(30)
@pytest.mark.parametrize("key", ["ssl.ca.location", "ssl.keystore.location", "ssl.crl.location", "https.ca.location"])
def test_a_pipe_that_nobody_writes_to_is_refused_at_once(tmp_path: Path, key: str) -> None:
    """To open it would wait for ever."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    unverified = {} if key == "ssl.ca.location" else {"enable.ssl.certificate.verification": False}
    right = ENDPOINT if key.startswith("https") else {**TLS, **unverified}
    with pytest.raises(monedula.ConfigError, match="a pipe or a device"):
        monedula.Consumer({**right, key: pipe})


def test_pem_whose_line_breaks_were_left_as_two_characters_is_read() -> None:
    """A key in a .env file, in one line, may arrive so."""
    with Broker(security="SSL", client_auth="required", topics={"orders": 1}) as broker:
        settings = broker.client_settings("anna")
        flat = {key: value.replace("\n", "\\n") if "BEGIN" in value else value for key, value in settings.items()}
        assert flat != settings
        with monedula.Admin(flat) as admin:
            assert "orders" in admin.list_topics()
