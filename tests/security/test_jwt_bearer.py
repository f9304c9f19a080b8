"""Tokens by JWT bearer (RFC 7523): an identity provider that checks assertions, signed with keys of every form."""

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import monedula
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from monedula.testing import Broker

from tests.kafka.secured import Certificates, Signer, TokenEndpoint
from tests.kafka.secured.oauth import Answer, Asked, json_answer

GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
AUDIENCE = "https://identity.example"
PASSPHRASE = "canary-pass"
Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
KEYS: dict[str, Key] = {"RS256": RSA_KEY, "ES256": ec.generate_private_key(ec.SECP256R1())}
FORMS = {
    "PKCS#8": (serialization.PrivateFormat.PKCS8, None),
    "PKCS#1 or SEC 1": (serialization.PrivateFormat.TraditionalOpenSSL, None),
    "encrypted PKCS#8": (serialization.PrivateFormat.PKCS8, PASSPHRASE),
}


class Provider:
    """An identity provider that knows the public key of one client."""

    def __init__(self, directory: Path, broker: Broker, key: Key) -> None:
        self.broker, self.key = broker, key
        self.certificates = Certificates(directory / "certificates")
        self.claims: list[dict[str, Any]] = []
        self.endpoint = TokenEndpoint(
            Signer(directory / "signer"), {}, self.certificates.server, answer=lambda asked: self.answered(asked)
        )

    def answered(self, asked: Asked) -> Answer:
        """A token for an assertion that is good."""
        assert asked.form["grant_type"] == GRANT
        assert "authorization" not in asked.headers
        try:
            claims = verified(asked.form["assertion"], self.key)
        except InvalidSignature:
            return json_answer(400, error="invalid_grant", error_description="the signature is wrong")
        self.claims.append(claims)
        token = self.broker.mint_token(claims["sub"])
        return json_answer(200, access_token=token, token_type="Bearer", expires_in=3600)

    def settings(self, **assertion: str) -> dict[str, Any]:
        """Of a client."""
        login = {
            "sasl.oauthbearer.token.endpoint.url": self.endpoint.url,
            "https.ca.location": str(self.certificates.ca.file),
            "sasl.oauthbearer.grant.type": GRANT,
        }
        named = {f"sasl.oauthbearer.assertion.{name.replace('_', '.')}": text for name, text in assertion.items()}
        return {**self.broker.client_settings("anna", mechanism="OAUTHBEARER"), **login, **named}


def verified(assertion: str, key: Key, **more: str) -> dict[str, Any]:
    """The claims of an assertion whose signature is that of the key; its header has `more`."""
    header, claims, signature = (
        base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in assertion.split(".")
    )
    signed = assertion.rpartition(".")[0].encode()
    is_rsa = isinstance(key, rsa.RSAPrivateKey)
    assert json.loads(header) == {"alg": "RS256" if is_rsa else "ES256", "typ": "JWT", **more}
    if isinstance(key, rsa.RSAPrivateKey):
        key.public_key().verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
    else:
        assert len(signature) == 64
        numbers = (int.from_bytes(half, "big") for half in (signature[:32], signature[32:]))
        key.public_key().verify(encode_dss_signature(*numbers), signed, ec.ECDSA(hashes.SHA256()))
    found: dict[str, Any] = json.loads(claims)
    return found


def key_file(directory: Path, key: Key, form: str) -> Path:
    how, password = FORMS[form]
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        encryption = serialization.BestAvailableEncryption(password.encode())
    file = directory / "assertion.key"
    file.write_bytes(key.private_bytes(serialization.Encoding.PEM, how, encryption))
    return file


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(security="SASL_SSL", users={"anna": "x"}, topics={"orders": 1}) as started:
        yield started


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("algorithm", KEYS)
def test_an_assertion_signed_with_a_key_of_any_form_becomes_a_token(
    broker: Broker, tmp_path: Path, algorithm: str, form: str
) -> None:
    provider = Provider(tmp_path, broker, KEYS[algorithm])
    with provider.endpoint:
        settings = provider.settings(
            private_key_file=str(key_file(tmp_path, KEYS[algorithm], form)),
            algorithm=algorithm,
            claim_aud=AUDIENCE,
            claim_iss="monedula",
            claim_sub="anna",
            **({"private_key_passphrase": PASSPHRASE} if FORMS[form][1] else {}),
        )
        with monedula.Admin(settings) as admin:
            assert "orders" in admin.list_topics()
    (claims,) = provider.claims
    assert (claims["aud"], claims["iss"], claims["sub"]) == (AUDIENCE, "monedula", "anna")
    assert claims["nbf"] <= time.time() < claims["exp"]


def test_an_assertion_that_someone_else_keeps_fresh_becomes_a_token(broker: Broker, tmp_path: Path) -> None:
    provider = Provider(tmp_path, broker, RSA_KEY)
    file = tmp_path / "assertion.jwt"
    header = base64.urlsafe_b64encode(json.dumps({"alg": "RS256", "typ": "JWT"}).encode()).rstrip(b"=")
    claims = base64.urlsafe_b64encode(json.dumps({"sub": "anna"}).encode()).rstrip(b"=")
    signature = RSA_KEY.sign(header + b"." + claims, padding.PKCS1v15(), hashes.SHA256())
    file.write_bytes(b".".join([header, claims, base64.urlsafe_b64encode(signature).rstrip(b"=")]) + b"\n")
    with provider.endpoint, monedula.Admin(provider.settings(file=str(file))) as admin:
        assert "orders" in admin.list_topics()
    assert provider.claims == [{"sub": "anna"}]


def test_an_assertion_that_the_provider_refuses_is_final(broker: Broker, tmp_path: Path) -> None:
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    provider = Provider(tmp_path, broker, KEYS["RS256"])
    with provider.endpoint:
        settings = provider.settings(private_key_file=str(key_file(tmp_path, other, "PKCS#8")), claim_sub="anna")
        settings |= {"bootstrap.timeout.ms": 600_000}
        with monedula.Admin(settings) as admin:
            for _ in range(2):
                with pytest.raises(
                    monedula.errors.AuthenticationError, match=r"invalid_grant \(the signature is wrong\)"
                ):
                    admin.list_topics()
    assert len(provider.endpoint.asked) == 1


@pytest.mark.parametrize(
    ("algorithm", "form", "more", "says"),
    [
        ("RS256", "encrypted PKCS#8", {"private_key_passphrase": "canary-wrong"}, r"private\.key\.passphrase is wrong"),
        ("RS256", "encrypted PKCS#8", {}, r"give sasl\.oauthbearer\.assertion\.private\.key\.passphrase"),
        ("ES256", "PKCS#8", {"algorithm": "RS256"}, "of another kind than RS256 takes"),
        ("RS256", "PKCS#8", {"algorithm": "ES256"}, "of another kind than ES256 takes"),
        ("RS256", "PKCS#8", {"private_key_file": "/no/such.key"}, "cannot be read"),
    ],
)
def test_a_key_that_cannot_sign_is_reported_when_the_client_is_made(
    broker: Broker, tmp_path: Path, algorithm: str, form: str, more: dict[str, str], says: str
) -> None:
    provider = Provider(tmp_path, broker, KEYS[algorithm])
    assertion = {"private_key_file": str(key_file(tmp_path, KEYS[algorithm], form)), "algorithm": algorithm, **more}
    with provider.endpoint, pytest.raises(monedula.ConfigError, match=says) as raised:
        monedula.Admin(provider.settings(**assertion))
    assert raised.value.key == "sasl.oauthbearer.assertion.private.key.file"
    assert "canary" not in str(raised.value)
