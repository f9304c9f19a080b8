"""The user's code that brings tokens: what it may be, what it may return, and what it is told when it is wrong."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import monedula
import pytest
from monedula._config.oauth_tokens import TokenSource
from monedula.config import raw_settings
from monedula.testing import Broker

NOW = time.time()
NEVER_MS = 600_000
SECRET = "canary-5d1e"
OAUTH = {
    "bootstrap.servers": "localhost:1",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
}


def fetched(provider: Any, config: str = "scope=a") -> tuple[str, float | None, list[tuple[str, str]]]:
    return TokenSource(provider, config).fetch()


def test_a_function_returns_a_token_alone_or_with_what_it_knows() -> None:
    assert fetched(lambda: "t") == ("t", None, [])
    assert fetched(lambda: b"t") == ("t", None, [])
    assert fetched(lambda: "t\n") == ("t", None, [])
    assert fetched(lambda: ("t", NOW)) == ("t", NOW, [])
    assert fetched(lambda: ("t", int(NOW), "anna", {"cluster": "c"})) == ("t", int(NOW), [("cluster", "c")])
    assert fetched(lambda: ("t", float("inf"))) == ("t", float("inf"), [])


def test_a_function_with_an_argument_gets_the_setting_for_it() -> None:
    assert fetched(lambda config: (config, NOW)) == ("scope=a", NOW, [])
    assert fetched(lambda *_: "t") == ("t", None, [])


def test_a_function_may_be_asynchronous() -> None:
    async def token() -> tuple[str, float]:
        return "t", NOW

    assert fetched(token) == ("t", NOW, [])


def test_an_object_has_a_method_token_and_may_have_extensions() -> None:
    class Provider:
        def token(self) -> str:
            return "t"

        async def extensions(self) -> dict[str, str]:
            return {"cluster": "c"}

    assert fetched(Provider()) == ("t", None, [("cluster", "c")])


@pytest.mark.parametrize(
    "answer", [None, "", " \n", 5, ("t", "soon"), ("t", True), (), ("t", 1, 2, 3, 4), ("t", 1, "p", "x")]
)
def test_other_answers_are_errors_without_their_values(answer: Any) -> None:
    with pytest.raises(TypeError, match="the token provider returned"):
        fetched(lambda: answer)
    with pytest.raises(TypeError) as raised:
        fetched(lambda: (["canary"], 1))
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize(
    ("expiry", "says"),
    [
        (3600, "3600 for the expiry, which looks like a duration.*seconds since 1970: add time.time()"),
        (0, "0 for the expiry, which looks like a duration"),
        (-1.5, "-1.5 for the expiry, which looks like a duration"),
        (float("nan"), "nan for the expiry, which looks like a duration"),
        (1_900_000_000_000, "for the expiry, which looks like milliseconds; give seconds since 1970"),
        (1_900_000_000_000_000_000, "looks like milliseconds"),
    ],
)
def test_an_expiry_that_is_no_time_in_seconds_is_an_error(expiry: float, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        fetched(lambda: ("t", expiry))


@pytest.mark.parametrize("name", ["sasl.oauthbearer.token.provider", "oauth_cb", "sasl_oauth_token_provider"])
def test_a_provider_is_taken_under_each_of_its_names(name: str) -> None:
    raw = raw_settings(OAUTH | {name: lambda: "t"}, {})
    assert raw.token_source is not None
    assert name not in dict(raw)
    monedula.Admin(OAUTH | {name: lambda: "t"}).close()


def test_what_is_no_provider_is_a_config_error() -> None:
    for provider in (5, object()):
        with pytest.raises(monedula.ConfigError, match="oauth_cb"):
            monedula.Admin(OAUTH | {"oauth_cb": provider})
    with pytest.raises(monedula.ConfigError, match="no text"):
        monedula.Admin(OAUTH | {"oauth_cb": "a text"})
    with pytest.raises(monedula.ConfigError, match="same setting"):
        monedula.Admin(OAUTH | {"oauth_cb": lambda: "t", "sasl_oauth_token_provider": lambda: "t"})


MISTAKES: dict[str, tuple[Callable[[Broker], Any], str]] = {
    "line break": (
        lambda broker: broker.mint_token("anna").replace(".", ".\n"),
        "the token has a line break in it.*Correct the source of tokens",
    ),
    "scheme": (
        lambda broker: f"Bearer {broker.mint_token('anna')}",
        'the token begins with "Bearer ": give the token alone.*Correct the source of tokens',
    ),
    "duration": (
        lambda broker: (broker.mint_token("anna"), 3600),
        "looks like a duration; give seconds since 1970.*Correct the function or object that .*oauth_cb",
    ),
    "milliseconds": (
        lambda broker: (broker.mint_token("anna"), time.time() * 1000),
        "looks like milliseconds; give seconds since 1970.*Correct the function or object that .*oauth_cb",
    ),
    "nothing": (lambda _: None, "returned a value of type NoneType for the token.*Correct the function or object"),
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(security="SASL_SSL", users={"anna": SECRET}, topics={"orders": 1}) as started:
        yield started


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("answer", "says"), MISTAKES.values(), ids=MISTAKES)
def test_a_provider_that_has_to_be_corrected_is_told_at_once(
    broker: Broker, answer: Callable[[Broker], Any], says: str
) -> None:
    settings = {**broker.client_settings("anna", mechanism="OAUTHBEARER"), "bootstrap.timeout.ms": NEVER_MS}
    with (
        monedula.Admin({**settings, "oauth_cb": lambda: answer(broker)}) as admin,
        pytest.raises(monedula.errors.AuthenticationError, match=says) as raised,
    ):
        admin.list_topics()
    assert broker.mint_token("anna")[:20] not in str(raised.value)


def endpoint_settings(broker: Broker, url: str) -> dict[str, Any]:
    return {
        **broker.client_settings("anna", mechanism="OAUTHBEARER"),
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.client.id": "anna",
        "sasl.oauthbearer.client.secret": SECRET,
    }


@pytest.mark.timeout(60)
def test_a_token_endpoint_of_an_unknown_authority_is_told_at_once(broker: Broker) -> None:
    settings = endpoint_settings(broker, broker.token_endpoint) | {"bootstrap.timeout.ms": NEVER_MS}
    says = r"comes from no authority that is trusted: give that authority's certificate in https\.ca\.location"
    with monedula.Admin(settings) as admin, pytest.raises(monedula.errors.AuthenticationError, match=says) as raised:
        admin.list_topics()
    assert broker.token_endpoint in str(raised.value)
    assert "UnknownIssuer" not in str(raised.value)
    with monedula.Admin(settings | {"https.ca.pem": broker.ca_pem}) as admin:
        assert "orders" in admin.list_topics()


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("port", ["PLAINTEXT", "SASL_SSL"])
def test_a_token_endpoint_that_is_a_broker_s_port_is_named_as_one(broker: Broker, scheme: str, port: str) -> None:
    with Broker() as plain:
        address = (plain if port == "PLAINTEXT" else broker).bootstrap_servers
        settings = endpoint_settings(broker, f"{scheme}://{address}/token") | {
            "sasl.oauthbearer.allow.plain.http": True,
            "https.ca.pem": broker.ca_pem,
            "bootstrap.timeout.ms": 3_000,
        }
        says = "may lead to a broker's port|does not speak (TLS|HTTP)"
        with (
            monedula.Admin(settings) as admin,
            pytest.raises(monedula.errors.AuthenticationError, match=says) as raised,
        ):
            admin.list_topics()
        assert "docs.rs" not in str(raised.value)
        assert SECRET not in str(raised.value)
