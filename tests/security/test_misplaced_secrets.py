"""Secrets that were given where none belongs, or in another encoding: the error says so, and does not show them."""

import os
import traceback
from collections.abc import Callable

import monedula
import pytest
from monedula.admin import ScramUpsertion, Secret

from tests.secrets import CANARY, assert_no_secret

PRIVATE_KEY = f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n-----END PRIVATE KEY-----\n"
NOT_UTF8 = os.fsdecode(CANARY.encode() + b"\xe4")
TLS = {"bootstrap.servers": "localhost:1", "security.protocol": "SSL"}
LOGIN = {"bootstrap.servers": "localhost:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}


def refused(call: Callable[[], object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as raised:
        call()
    shown = "".join(traceback.TracebackException.from_exception(raised.value, capture_locals=True).format())
    # Only frames below the test's own, which has the secret itself.
    of_library = shown.partition("/python/monedula/")[2]
    assert of_library
    assert_no_secret("the traceback", of_library.encode(errors="backslashreplace"))
    assert_no_secret("the error", repr((raised.value, raised.value.args, vars(raised.value))).encode())


@pytest.mark.parametrize(
    "key",
    [
        "ssl.key.location",
        "ssl.keystore.location",
        "ssl.truststore.location",
        "ssl.keystore.type",
        "sasl.oauthbearer.assertion.private.key.file",
        "sasl.kerberos.keytab",
        "client.id",
    ],
)
def test_a_private_key_where_something_else_belongs_is_not_shown(key: str) -> None:
    refused(lambda: monedula.Consumer({**TLS, key: PRIVATE_KEY}), monedula.ConfigError, rf"{key}.*ssl\.key\.pem")


def test_a_password_within_an_address_is_not_shown() -> None:
    servers = {"bootstrap.servers": f"anna:{CANARY}@localhost:9092"}
    refused(lambda: monedula.Consumer(servers), monedula.ConfigError, r"sasl\.password")


def test_a_password_that_is_no_utf8_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONEDULA_TEST_PASSWORD", NOT_UTF8)
    user = {**LOGIN, "sasl.username": "anna"}
    refused(
        lambda: monedula.Consumer({**user, "sasl.password": os.environ["MONEDULA_TEST_PASSWORD"]}),
        monedula.ConfigError,
        r"sasl\.password: the value is not UTF-8",
    )
    provided = {**user, "config.providers": "env", "sasl.password": "${env:MONEDULA_TEST_PASSWORD}"}
    refused(lambda: monedula.Consumer(provided), monedula.ConfigError, "MONEDULA_TEST_PASSWORD is not UTF-8")
    with pytest.raises(ValueError, match="valid UTF-8"):
        Secret(NOT_UTF8)
    refused(lambda: ScramUpsertion("anna", NOT_UTF8), ValueError, "valid UTF-8")


def test_a_name_that_is_no_utf8_is_refused_as_an_argument() -> None:
    with monedula.Admin({"bootstrap.servers": "localhost:1"}) as admin:
        for call in (admin.describe_topics, admin.describe_groups):
            with pytest.raises(monedula.ArgumentError, match="UTF-8"):
                call(["t\udce4"])
