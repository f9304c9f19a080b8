"""Client credentials with an assertion in place of a secret (private_key_jwt, RFC 7523, KIP-1258)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import monedula
import pytest
from cryptography.exceptions import InvalidSignature
from monedula.errors import AuthenticationError
from monedula.testing import Broker

from tests.kafka.secured import Certificates, Signer, TokenEndpoint
from tests.kafka.secured.oauth import Answer, Asked, json_answer
from tests.security.test_jwt_bearer import KEYS, RSA_KEY, key_file, verified

KIND = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class Provider:
    """An identity provider that knows the public key of the client `anna`."""

    def __init__(self, directory: Path, broker: Broker) -> None:
        self.broker = broker
        self.certificates = Certificates(directory / "certificates")
        self.claims: list[dict[str, Any]] = []
        self.endpoint = TokenEndpoint(
            Signer(directory / "signer"), {}, self.certificates.server, answer=lambda asked: self.answered(asked)
        )

    def answered(self, asked: Asked) -> Answer:
        """A token for an assertion that is good."""
        assert "authorization" not in asked.headers
        assert "client_secret" not in asked.form
        assert (asked.form["grant_type"], asked.form["client_assertion_type"]) == ("client_credentials", KIND)
        assert asked.form["scope"] == "kafka"
        try:
            self.claims.append(verified(asked.form["client_assertion"], RSA_KEY, **self.more()))
        except InvalidSignature:
            return json_answer(401, error="invalid_client", error_description="the signature is wrong")
        return json_answer(200, access_token=self.broker.mint_token("anna"), token_type="Bearer", expires_in=3600)

    def more(self) -> dict[str, str]:
        """What a template adds to the header."""
        return {}

    def settings(self, **assertion: str) -> dict[str, Any]:
        """Of a client."""
        named = {f"sasl.oauthbearer.assertion.{name.replace('_', '.')}": text for name, text in assertion.items()}
        return {
            **self.broker.client_settings("anna", mechanism="OAUTHBEARER"),
            "sasl.oauthbearer.token.endpoint.url": self.endpoint.url,
            "sasl.oauthbearer.client.credentials.client.id": "anna",
            "sasl.oauthbearer.scope": "kafka",
            "https.ca.location": str(self.certificates.ca.file),
            **named,
        }


class ProviderOfTemplates(Provider):
    """Likewise, of a client that names its key."""

    def more(self) -> dict[str, str]:
        return {"kid": "key-1"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(security="SASL_SSL", users={"anna": "x"}, topics={"orders": 1}) as started:
        yield started


def topics(settings: dict[str, Any]) -> list[str]:
    with monedula.Admin(settings) as admin:
        return list(admin.list_topics())


@pytest.mark.parametrize("place", ["file", "pem"])
def test_an_assertion_stands_for_the_secret(broker: Broker, tmp_path: Path, place: str) -> None:
    provider = Provider(tmp_path, broker)
    file = key_file(tmp_path, RSA_KEY, "PKCS#8")
    given = {"private_key_file": str(file)} if place == "file" else {"private_key_pem": file.read_text()}
    with provider.endpoint:
        # As in Java, it counts before a secret.
        secret = {"sasl.oauthbearer.client.credentials.client.secret": "canary"}
        assert "orders" in topics(provider.settings(**given) | secret)
    (claims,) = provider.claims
    assert (claims["aud"], claims["iss"], claims["sub"]) == (provider.endpoint.url, "anna", "anna")
    assert provider.endpoint.asked[0].form["client_id"] == "anna"


def test_a_template_names_the_key_and_more_claims(broker: Broker, tmp_path: Path) -> None:
    provider = ProviderOfTemplates(tmp_path, broker)
    template = tmp_path / "template.json"
    template.write_text(json.dumps({"header": {"kid": "key-1", "alg": "none"}, "payload": {"sub": "other", "v": 1}}))
    with provider.endpoint:
        for name in ("template_file", "jwt_template_file"):
            given = provider.settings(
                private_key_file=str(key_file(tmp_path, RSA_KEY, "PKCS#8")), claim_iss="me", **{name: str(template)}
            )
            assert "orders" in topics(given)
    for claims in provider.claims:
        assert (claims["iss"], claims["sub"], claims["v"]) == ("me", "other", 1)


def test_an_assertion_in_a_file_is_read_anew_for_each_token(broker: Broker, tmp_path: Path) -> None:
    """As a projected token of Kubernetes is, for Azure's workload identity."""
    signer = Signer(tmp_path / "issuer")
    file = signer.write_token("anna")
    shown: list[str] = []

    def answered(asked: Asked) -> Answer:
        shown.append(asked.form["client_assertion"])
        return json_answer(200, access_token=broker.mint_token("anna"), expires_in=3600)

    provider = Provider(tmp_path, broker)
    provider.endpoint.answer = answered
    with provider.endpoint:
        assert "orders" in topics(provider.settings(file=str(file)))
        signer.write_token("anna", jti="another")
        assert "orders" in topics(provider.settings(file=str(file)))
    first, second = shown
    assert second == file.read_text() != first


def test_a_key_that_the_provider_does_not_know_is_final(broker: Broker, tmp_path: Path) -> None:
    provider = Provider(tmp_path, broker)
    provider.endpoint.answer = lambda _asked: json_answer(401, error="invalid_client", error_description="no such key")
    with provider.endpoint:
        given = provider.settings(private_key_file=str(key_file(tmp_path, RSA_KEY, "PKCS#8")))
        with pytest.raises(AuthenticationError, match=r"invalid_client \(no such key\).*assertion") as raised:
            topics(given | {"bootstrap.timeout.ms": 600_000})
    assert provider.endpoint.url in str(raised.value)
    assert len(provider.endpoint.asked) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", "is no JSON object"),
        ('{"headers": {}}', '"headers"'),
        ('{"header": 5}', "a header that is no JSON object"),
        (None, "cannot be read"),
    ],
)
def test_a_template_that_is_none_is_an_error_of_the_setting(
    broker: Broker, tmp_path: Path, text: str | None, told: str
) -> None:
    provider = Provider(tmp_path, broker)
    template = tmp_path / "template.json"
    if text is not None:
        template.write_text(text)
    key = str(key_file(tmp_path, KEYS["RS256"], "PKCS#8"))
    with provider.endpoint, pytest.raises(monedula.ConfigError, match=told):
        monedula.Admin(provider.settings(private_key_file=key, template_file=str(template)))


def test_two_keys_are_one_too_many(broker: Broker, tmp_path: Path) -> None:
    provider = Provider(tmp_path, broker)
    file = key_file(tmp_path, RSA_KEY, "PKCS#8")
    with provider.endpoint, pytest.raises(monedula.ConfigError, match="one of") as raised:
        monedula.Admin(provider.settings(private_key_file=str(file), private_key_pem=file.read_text()))
    assert "PRIVATE KEY-----" not in str(raised.value)
