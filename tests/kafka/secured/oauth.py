"""Bearer tokens: a signing key with its JWKS, JWTs signed with it or not signed at all, and a token endpoint (OIDC)."""

import base64
import json
import ssl
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.kafka.secured.certificates import Issued

ISSUER = "https://identity.example"
AUDIENCE = "kafka"
LIFETIME_SECONDS = 3600.0
PATH = "/oauth2/token"


class Signer:
    """Signs JWTs as RS256.

    Args:
        directory: for the JWKS and the files of tokens.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.key_id = "key-1"
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.jwks_file = directory / "jwks.json"
        self.jwks_file.write_text(json.dumps(self.jwks()))

    def jwks(self) -> dict[str, Any]:
        """The public key, as a broker reads it."""
        public = self._key.public_key().public_numbers()
        numbers = {"n": _number(public.n), "e": _number(public.e)}
        return {"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.key_id, **numbers}]}

    def token(self, user: str, *, lifetime_seconds: float = LIFETIME_SECONDS, **claims: Any) -> str:
        """A JWT that the broker accepts for this long.

        Args:
            user: its subject.
            lifetime_seconds: from now on; one that is negative has expired.
            claims: more, or in place of those that it has.
        """
        header = {"alg": "RS256", "typ": "JWT", "kid": self.key_id}
        signed = f"{_json(header)}.{_json(_claims(user, lifetime_seconds) | claims)}"
        return f"{signed}.{_base64(self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def token_file(self, user: str) -> Path:
        """Where `write_token` writes."""
        return self.directory / f"{user}.jwt"

    def write_token(self, user: str, **how: Any) -> Path:
        """Write a new token, for clients that read one from a file."""
        path = self.token_file(user)
        path.write_text(self.token(user, **how))
        return path


def unsigned(user: str, *, lifetime_seconds: float = LIFETIME_SECONDS, **claims: Any) -> str:
    """A JWT without a signature (`alg: none`), which Kafka's unsecured validator takes."""
    return f"{_json({'alg': 'none'})}.{_json(_claims(user, lifetime_seconds) | claims)}."


@dataclass
class Asked:
    """A request to the token endpoint.

    Attributes:
        headers: by name in lower case.
        form: the fields of its body.
    """

    headers: dict[str, str]
    form: dict[str, str]


Answer = tuple[int, dict[str, str], bytes]
"""Status, headers and body."""


@dataclass
class TokenEndpoint:
    """An identity provider's token endpoint on a loopback port, in a thread; `with` starts and ends it.

    Attributes:
        signer: of its tokens.
        secrets: `client_secret` by `client_id`; the client's id is the subject of its token.
        certificate: for HTTPS; plain HTTP without.
        lifetime_seconds: of its tokens.
        answer: in place of a token, for tests of what goes wrong.
        asked: all requests that came.
    """

    signer: Signer
    secrets: dict[str, str]
    certificate: Issued | None = None
    lifetime_seconds: float = LIFETIME_SECONDS
    answer: Callable[[Asked], Answer] | None = None
    asked: list[Asked] = field(default_factory=list)
    _server: ThreadingHTTPServer | None = None

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        if self.certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.certificate.chain, self.certificate.key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    @property
    def url(self) -> str:
        """Its address."""
        assert self._server is not None
        scheme = "http" if self.certificate is None else "https"
        return f"{scheme}://localhost:{self._server.server_address[1]}{PATH}"

    def answered(self, asked: Asked) -> Answer:
        """The answer to a request."""
        self.asked.append(asked)
        if self.answer is not None:
            return self.answer(asked)
        name, secret = _credentials(asked)
        if self.secrets.get(name) != secret:
            return json_answer(401, error="invalid_client", error_description=f"{name} is not known here")
        token = self.signer.token(name, lifetime_seconds=self.lifetime_seconds, scope=asked.form.get("scope", "kafka"))
        return json_answer(200, access_token=token, token_type="Bearer", expires_in=int(self.lifetime_seconds))


def json_answer(status: int, **fields: Any) -> Answer:
    """An answer with this JSON."""
    return status, {"Content-Type": "application/json"}, json.dumps(fields).encode()


def _credentials(asked: Asked) -> tuple[str, str]:
    kind, _, encoded = asked.headers.get("authorization", "").partition(" ")
    if kind.lower() == "basic":
        name, _, secret = base64.b64decode(encoded).decode().partition(":")
        return name, secret
    return asked.form.get("client_id", ""), asked.form.get("client_secret", "")


def _handler(endpoint: TokenEndpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            form = {name: values[0] for name, values in parse_qs(body.decode(), keep_blank_values=True).items()}
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, answered, content = endpoint.answered(Asked(headers, form))
            self.send_response(status)
            for name, value in answered.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    return Handler


def _claims(user: str, lifetime_seconds: float) -> dict[str, Any]:
    now = int(time.time())  # whole seconds: Java's reader of JWTs takes no others
    return {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": user,
        "jti": str(uuid.uuid4()),
        "iat": min(now, now + int(lifetime_seconds)) - 1,
        "exp": now + int(lifetime_seconds),
        "scope": "kafka",
    }


def _json(value: object) -> str:
    return _base64(json.dumps(value).encode())


def _number(value: int) -> str:
    return _base64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
