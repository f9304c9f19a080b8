"""The user's code that brings tokens: what it may be, what it may return, and what it is told when it is wrong."""

from typing import Any

import monedula
import pytest
from monedula._tokens import TokenSource
from monedula.config import raw_settings

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
    assert fetched(lambda: ("t", 12)) == ("t", 12.0, [])
    assert fetched(lambda: ("t", 12.5, "anna", {"cluster": "c"})) == ("t", 12.5, [("cluster", "c")])


def test_a_function_with_an_argument_gets_the_setting_for_it() -> None:
    assert fetched(lambda config: (config, 1)) == ("scope=a", 1.0, [])
    assert fetched(lambda *_: "t") == ("t", None, [])


def test_a_function_may_be_asynchronous() -> None:
    async def token() -> tuple[str, float]:
        return "t", 1.0

    assert fetched(token) == ("t", 1.0, [])


def test_an_object_has_a_method_token_and_may_have_extensions() -> None:
    class Provider:
        def token(self) -> str:
            return "t"

        async def extensions(self) -> dict[str, str]:
            return {"cluster": "c"}

    assert fetched(Provider()) == ("t", None, [("cluster", "c")])


@pytest.mark.parametrize("answer", [None, "", 5, ("t", "soon"), ("t", True), (), ("t", 1, 2, 3, 4), ("t", 1, "p", "x")])
def test_other_answers_are_errors_without_their_values(answer: Any) -> None:
    with pytest.raises(TypeError, match="the token provider returned"):
        fetched(lambda: answer)
    with pytest.raises(TypeError) as raised:
        fetched(lambda: (["canary"], 1))
    assert "canary" not in str(raised.value)


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
