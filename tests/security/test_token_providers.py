"""The user's code that brings tokens: what it may be, what it may return, and what it is told when it is wrong."""

import time
from typing import Any

import monedula
import pytest
from monedula._tokens import TokenSource
from monedula.config import raw_settings

NOW = time.time()
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
        (round(NOW * 1000), "for the expiry, which looks like milliseconds; give seconds since 1970"),
        (round(NOW * 1e9), "looks like milliseconds"),
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


def test_a_token_without_a_source_is_an_authentication_error() -> None:
    # Nothing listens at the address; the login is not reached before that.
    with monedula.Admin(OAUTH | {"bootstrap_timeout_ms": 500}) as admin, pytest.raises(monedula.KafkaError):
        admin.list_topics()
