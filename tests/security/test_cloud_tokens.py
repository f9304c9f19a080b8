"""Tokens that a cloud gives: its metadata services and its token service, played by servers of the tests' own.

Signatures are verified by what the server knows, as AWS does; the vectors that AWS published are in
`rust/client/src/sasl/aws/sigv4.rs`.
"""

import base64
import hashlib
import hmac
import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import monedula
import pytest
from monedula._config.msk_iam import MskIam
from monedula.errors import AuthenticationError
from monedula.testing import Broker

from tests.kafka.cluster import free_ports
from tests.relay import Relay
from tests.security.cloud import Answer, Asked, Cloud

CLOUD_VARIABLES = ("AWS_", "GCE_", "GOOGLE_", "IDENTITY_")
"""How the names of their variables begin."""

SASL_AUTHENTICATE = 36
RESOURCE = "api://kafka"
KEY_ID, KEY, SESSION = "AKIDEXAMPLE", "canary/key", "canary/session="
MSK = {"sasl.mechanism": "AWS_MSK_IAM"}
DIRECT = {"sasl.oauthbearer.proxy.url": "direct"}
"""For STS, which is asked through a proxy if there is one; metadata services are not."""

REGION = "eu-central-1"


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No cloud is in the environment, and a proxy that leads nowhere, which no metadata service is asked through."""
    for name in [name for name in os.environ if name.startswith(CLOUD_VARIABLES)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(security="SASL_SSL", users={"anna": "x"}, topics={"orders": 1}) as started:
        yield started


def settings(broker: Broker, **more: Any) -> dict[str, Any]:
    own = {name.replace("_", "."): value for name, value in more.items()}
    return {**broker.client_settings("anna", mechanism="OAUTHBEARER"), **own}


def topics(given: dict[str, Any]) -> list[str]:
    with monedula.Admin(given) as admin:
        return list(admin.list_topics())


def json_of(**content: Any) -> Answer:
    return 200, json.dumps(content).encode()


# ---- Azure


@pytest.mark.parametrize(
    "asks_for",
    [
        {"sasl_oauthbearer_config": f"query=api-version=2025-04-07&resource={RESOURCE}&client_id=me"},
        {"sasl_oauthbearer_config": f"params=resource={RESOURCE}&client_id=me"},
        {"sasl_oauthbearer_scope": f"{RESOURCE}/.default", "sasl_oauthbearer_client_id": "me"},
    ],
)
def test_azures_managed_identity_becomes_a_token(broker: Broker, asks_for: dict[str, str]) -> None:
    def answer(asked: Asked) -> Answer:
        assert asked.headers["metadata"] == "true"
        return json_of(access_token=broker.mint_token("anna"), expires_in="3599", token_type="Bearer")

    with Cloud(answer) as cloud:
        url = f"{cloud.url}/metadata/identity/oauth2/token"
        more = {"sasl_oauthbearer_method": "oidc", "sasl_oauthbearer_token_endpoint_url": url, **asks_for}
        assert "orders" in topics(settings(broker, sasl_oauthbearer_metadata_authentication_type="azure_imds", **more))
    (asked,) = cloud.asked
    assert (asked.method, asked.path) == ("GET", "/metadata/identity/oauth2/token")
    assert (asked.parameters["resource"], asked.parameters["client_id"]) == (RESOURCE, "me")
    assert asked.parameters["api-version"] in ("2018-02-01", "2025-04-07")


def test_the_identity_of_azures_app_service_is_found_by_its_environment(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(asked: Asked) -> Answer:
        if asked.headers.get("x-identity-header") != "canary":
            return 401, b""
        return json_of(access_token=broker.mint_token("anna"), expires_on=str(int(time.time()) + 3600))

    with Cloud(answer) as cloud:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{cloud.url}/msi/token")
        monkeypatch.setenv("IDENTITY_HEADER", "canary")
        type_and_scope = {
            "sasl.oauthbearer.metadata.authentication.type": "azure_imds",
            "sasl.oauthbearer.config": f"query=api-version=2018-02-01&resource={RESOURCE}",
        }
        assert "orders" in topics(settings(broker, **type_and_scope))
    assert cloud.asked[0].parameters == {"api-version": "2019-08-01", "resource": RESOURCE}


def test_an_identity_that_azure_does_not_know_is_final_and_says_what_to_check(broker: Broker) -> None:
    told = {"error": "invalid_request", "error_description": "Identity not found"}
    with Cloud(lambda _asked: (400, json.dumps(told).encode())) as cloud:
        more = {"sasl_oauthbearer_token_endpoint_url": cloud.url, "bootstrap_timeout_ms": 600_000}
        given = settings(
            broker,
            sasl_oauthbearer_metadata_authentication_type="azure_imds",
            sasl_oauthbearer_scope=RESOURCE,
            **more,
        )
        with pytest.raises(AuthenticationError, match="Identity not found") as raised:
            topics(given)
    assert cloud.url in str(raised.value)
    assert "managed identity" in str(raised.value)


@pytest.mark.parametrize("answer", [(500, b""), (200, b"<html>"), (200, b"{}"), (302, b""), (401, b"")])
def test_the_query_of_a_token_endpoint_is_in_no_message(broker: Broker, answer: Answer) -> None:
    with Cloud(lambda _asked: answer) as cloud:
        given = settings(
            broker,
            sasl_oauthbearer_token_endpoint_url=f"{cloud.url}/token?code=canary",
            sasl_oauthbearer_client_id="me",
            sasl_oauthbearer_client_secret="canary",
            sasl_oauthbearer_allow_plain_http=True,
            bootstrap_timeout_ms=500,
        )
        with pytest.raises(AuthenticationError, match=f"{cloud.url}/token[: ]") as raised:
            topics(given)
    assert "canary" not in str(raised.value)


def test_a_metadata_service_that_is_busy_is_asked_again(broker: Broker) -> None:
    statuses = [429, 404, 500]

    def answer(_asked: Asked) -> Answer:
        return (statuses.pop(), b"") if statuses else json_of(access_token=broker.mint_token("anna"))

    with Cloud(answer) as cloud:
        given = settings(
            broker,
            sasl_oauthbearer_metadata_authentication_type="azure_imds",
            sasl_oauthbearer_scope=RESOURCE,
            sasl_oauthbearer_token_endpoint_url=cloud.url,
            sasl_login_retry_backoff_ms=1,
        )
        assert "orders" in topics(given)
    assert len(cloud.asked) == 4


def test_a_metadata_service_that_is_not_there_is_named(broker: Broker) -> None:
    given = settings(
        broker,
        sasl_oauthbearer_metadata_authentication_type="azure_imds",
        sasl_oauthbearer_scope=RESOURCE,
        sasl_oauthbearer_token_endpoint_url="http://127.0.0.1:1/token",
        bootstrap_timeout_ms=500,
    )
    with pytest.raises(AuthenticationError, match="managed identity") as raised:
        topics(given)
    assert "http://127.0.0.1:1/token" in str(raised.value)


@pytest.mark.parametrize(
    ("more", "key", "told"),
    [
        ({}, "sasl.oauthbearer.scope", "needs the resource"),
        ({"sasl_oauthbearer_config": "resource"}, "sasl.oauthbearer.config", "has no ="),
        ({"sasl_oauthbearer_config": "resource=x"}, "sasl.oauthbearer.config", "query=resource"),
        (
            {"sasl_oauthbearer_token_endpoint_url": "http://imds.example/"},
            "sasl.oauthbearer.token.endpoint.url",
            "http: URL",
        ),
    ],
)
def test_what_azure_cannot_be_asked_is_an_error_of_the_setting(
    broker: Broker, more: dict[str, str], key: str, told: str
) -> None:
    with pytest.raises(monedula.ConfigError, match=told) as raised:
        monedula.Admin(settings(broker, sasl_oauthbearer_metadata_authentication_type="azure_imds", **more))
    assert raised.value.key == key


# ---- Google


def google(asked: Asked) -> Answer:
    assert asked.headers["metadata-flavor"] == "Google"
    account = "/computeMetadata/v1/instance/service-accounts/default"
    if asked.path == f"{account}/token":
        return json_of(access_token="ya29.canary", expires_in=3599, token_type="Bearer")
    return (200, b"me@project.iam.gserviceaccount.com") if asked.path == f"{account}/email" else (404, b"")


@pytest.mark.parametrize(
    "named",
    [
        {"sasl.oauthbearer.metadata.authentication.type": "gcp_metadata"},
        {"sasl.login.callback.handler.class": "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler"},
    ],
)
def test_googles_service_account_becomes_a_token_in_its_envelope(
    monkeypatch: pytest.MonkeyPatch, named: dict[str, str]
) -> None:
    with Cloud(google) as cloud:
        monkeypatch.setenv("GCE_METADATA_HOST", cloud.host)
        token = token_of(named)
    header, claims, access = (decoded(part) for part in token.split("."))
    assert json.loads(header) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    assert access == b"ya29.canary"
    told = json.loads(claims)
    assert (told["sub"], told["scope"]) == ("me@project.iam.gserviceaccount.com", "kafka")
    assert time.time() < told["exp"] <= time.time() + 3600


def test_a_server_that_is_not_googles_is_named(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    with Cloud(lambda _asked: (403, b"no")) as cloud:
        monkeypatch.setenv("GCE_METADATA_HOST", cloud.host)
        kind = {"sasl.oauthbearer.metadata.authentication.type": "gcp_metadata", "bootstrap.timeout.ms": 300}
        with pytest.raises(AuthenticationError, match="answered 403") as raised:
            topics(settings(broker, **kind))
    assert cloud.host in str(raised.value)
    assert "service account" in str(raised.value)


# ---- AWS


def decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


@pytest.mark.parametrize(
    ("variable", "value", "kind"),
    [("GCE_METADATA_HOST", "10.0.0.1", "gcp_metadata"), ("IDENTITY_ENDPOINT", "http://10.0.0.1/", "azure_imds")],
)
def test_tokens_are_not_asked_for_over_an_open_network(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, kind: str
) -> None:
    monkeypatch.setenv(variable, value)
    monkeypatch.setenv("IDENTITY_HEADER", "canary")
    named = {"sasl.oauthbearer.metadata.authentication.type": kind, "sasl.oauthbearer.scope": RESOURCE}
    with pytest.raises(monedula.ConfigError, match=variable):
        monedula.Admin(settings(broker, **named))


def token_of(named: dict[str, Any]) -> str:
    """The token that a client shows to a broker, which is read on the way: no broker here knows a cloud's tokens."""
    with (
        Broker(security="SASL_PLAINTEXT", users={"anna": "x"}) as broker,
        Relay(broker.bootstrap_servers) as relay,
        monedula.Admin(
            {
                **broker.client_settings("anna", mechanism="OAUTHBEARER"),
                "bootstrap.servers": relay.bootstrap_servers,
                **named,
            }
        ) as admin,
    ):
        with pytest.raises(AuthenticationError):
            admin.list_topics()
        shown = relay.requests(SASL_AUTHENTICATE)[0].body
    return shown.split(b"auth=Bearer ")[1].split(b"\x01")[0].decode()


def signature(asked: Asked, service: str, region: str, key: str, signed: list[str], query: str, payload: bytes) -> str:
    """The signature that AWS would compute for a request (Signature Version 4)."""
    lines = "".join(f"{name}:{asked.headers[name]}\n" for name in signed)
    hashed = hashlib.sha256(payload).hexdigest()
    canonical = f"{asked.method}\n{asked.path}\n{query}\n{lines}\n{';'.join(signed)}\n{hashed}"
    at = asked.headers["x-amz-date"]
    scope = f"{at[:8]}/{region}/{service}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    secret = f"AWS4{key}".encode()
    for part in (at[:8], region, service, "aws4_request", text):
        secret = hmac.digest(secret, part.encode(), "sha256")
    return secret.hex()


def verify_presigned(token: str, *, key_id: str = KEY_ID, key: str = KEY, session: str | None = SESSION) -> None:
    """Assert that a token is a presigned URL of MSK's action, signed with these credentials."""
    url = urlsplit(decoded(token).decode())
    pairs = url.query.split("&")
    parameters = {name: unquote(value) for name, _, value in (pair.partition("=") for pair in pairs)}
    assert (url.scheme, url.netloc, url.path) == ("https", f"kafka.{REGION}.amazonaws.com", "/")
    assert (parameters["Action"], parameters["X-Amz-Expires"]) == ("kafka-cluster:Connect", "900")
    assert parameters["X-Amz-Credential"].split("/")[0] == key_id
    assert parameters.get("X-Amz-Security-Token") == session
    at = datetime.strptime(parameters["X-Amz-Date"], "%Y%m%dT%H%M%S%z")
    assert abs(datetime.now(UTC) - at) < timedelta(minutes=5)
    assert pairs.pop() == "User-Agent=monedula"
    signed = pairs.pop().removeprefix("X-Amz-Signature=")
    headers = {"host": url.netloc, "x-amz-date": parameters["X-Amz-Date"]}
    asked = Asked("GET", "/", "", {}, headers, b"")
    assert signed == signature(asked, "kafka-cluster", REGION, key, ["host"], "&".join(sorted(pairs)), b"")


def verify_signed(asked: Asked, cloud: Cloud, *, key: str = KEY, session: str | None = SESSION) -> None:
    """Assert that a request to STS is signed with these credentials."""
    assert asked.headers["host"] == cloud.host
    assert asked.headers.get("x-amz-security-token") == session
    parts = dict(part.split("=", 1) for part in asked.headers["authorization"].split(" ", 1)[1].split(", "))
    signed = parts["SignedHeaders"].split(";")
    assert {"host", "x-amz-date"} <= set(signed)
    assert parts["Signature"] == signature(asked, "sts", REGION, key, signed, "", asked.body)


def keys_of(*, seconds: float = 3600, key_id: str = KEY_ID) -> dict[str, str]:
    expiry = (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"AccessKeyId": key_id, "SecretAccessKey": KEY, "Token": SESSION, "Expiration": expiry}


def sts_answer(action: str, *, key_id: str = KEY_ID) -> bytes:
    keys = keys_of(key_id=key_id)
    keys["SessionToken"] = keys.pop("Token")
    inner = "".join(f"<{name}>{text}</{name}>" for name, text in keys.items())
    return (
        f"<{action}Response><{action}Result><Credentials>{inner}</Credentials></{action}Result></{action}Response>"
    ).encode()


def in_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)
    monkeypatch.setenv("AWS_SESSION_TOKEN", SESSION)
    monkeypatch.setenv("AWS_REGION", REGION)


def test_keys_of_the_environment_sign_for_msk(monkeypatch: pytest.MonkeyPatch) -> None:
    in_environment(monkeypatch)
    verify_presigned(token_of(MSK))
    monkeypatch.delenv("AWS_SESSION_TOKEN")
    verify_presigned(token_of(MSK), session=None)


def test_botocore_signs_likewise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verification above is that of AWS's own library."""
    in_environment(monkeypatch)
    token, _ = MskIam({"bootstrap.servers": "localhost:9098"}, {})()
    verify_presigned(token)


def test_a_profile_is_botocores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text(f"[work]\naws_access_key_id={KEY_ID}\naws_secret_access_key={KEY}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_REGION", REGION)
    module = 'software.amazon.msk.auth.iam.IAMLoginModule required awsProfileName="work";'
    verify_presigned(token_of({**MSK, "sasl.jaas.config": module}), session=None)
    monkeypatch.setenv("AWS_PROFILE", "work")
    verify_presigned(token_of(MSK), session=None)


def test_a_token_of_kubernetes_stands_for_a_role(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("canary.jwt\n")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(file))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/of & me")
    monkeypatch.setenv("AWS_REGION", REGION)
    with Cloud(lambda _asked: (200, sts_answer("AssumeRoleWithWebIdentity"))) as cloud:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"{cloud.url}/")
        verify_presigned(token_of(MSK | DIRECT))
    (asked,) = cloud.asked
    assert "authorization" not in asked.headers
    session_name = asked.parameters.pop("RoleSessionName")
    assert session_name.startswith("monedula-")
    assert asked.parameters == {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": "2011-06-15",
        "RoleArn": "arn:aws:iam::1:role/of & me",
        "WebIdentityToken": "canary.jwt",
    }


def test_a_role_is_assumed_with_the_options_of_amazons_login_module(monkeypatch: pytest.MonkeyPatch) -> None:
    in_environment(monkeypatch)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDSOURCE")
    module = (
        'software.amazon.msk.auth.iam.IAMLoginModule required awsRoleArn="arn:aws:iam::1:role/r" '
        'awsRoleSessionName="me" awsRoleExternalId="them" awsStsRegion="eu-central-1";'
    )
    with Cloud(lambda _asked: (200, sts_answer("AssumeRole"))) as cloud:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", cloud.url)
        verify_presigned(token_of({**MSK, **DIRECT, "sasl.jaas.config": module}))
        (asked,) = cloud.asked
        verify_signed(asked, cloud)
    assert "Credential=AKIDSOURCE/" in asked.headers["authorization"]
    told = (asked.parameters[name] for name in ("Action", "RoleArn", "RoleSessionName", "ExternalId"))
    assert tuple(told) == ("AssumeRole", "arn:aws:iam::1:role/r", "me", "them")


@pytest.mark.parametrize("how", ["AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"])
def test_a_container_has_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str) -> None:
    file = tmp_path / "token"
    file.write_text("canary-pod\n")
    monkeypatch.setenv(how, str(file) if how.endswith("FILE") else "canary-pod")
    monkeypatch.setenv("AWS_REGION", REGION)

    def answer(asked: Asked) -> Answer:
        return json_of(**keys_of()) if asked.headers.get("authorization") == "canary-pod" else (403, b"")

    with Cloud(answer) as cloud:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{cloud.url}/v1/credentials")
        verify_presigned(token_of(MSK))
    assert {asked.path for asked in cloud.asked} == {"/v1/credentials"}


def test_an_instance_has_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    monkeypatch.setenv("AWS_REGION", REGION)
    roles = "/latest/meta-data/iam/security-credentials/"

    def answer(asked: Asked) -> Answer:
        if (asked.method, asked.path) == ("PUT", "/latest/api/token"):
            assert int(asked.headers["x-aws-ec2-metadata-token-ttl-seconds"]) > 0
            return 200, b"canary-imds"
        if asked.headers.get("x-aws-ec2-metadata-token") != "canary-imds":
            return 401, b""
        return {roles: (200, b"my-role"), f"{roles}my-role": json_of(Code="Success", **keys_of())}[asked.path]

    with Cloud(answer) as cloud:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"{cloud.url}/")
        verify_presigned(token_of(MSK))
    assert len(cloud.asked) == 3


def test_a_token_is_renewed_before_the_keys_that_signed_it_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", REGION)
    with Cloud(lambda _asked: json_of(**keys_of(seconds=4))) as cloud:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", cloud.url)
        with Broker(security="SASL_PLAINTEXT", users={"anna": "x"}) as broker:
            given = {**broker.client_settings("anna", mechanism="OAUTHBEARER"), **MSK}
            with monedula.Admin(given) as admin:
                with pytest.raises(AuthenticationError):
                    admin.list_topics()
                # Nobody asks: the client was refused, and its token has seconds left.
                cloud.wait(2)


@pytest.mark.parametrize(
    ("status", "code", "is_final"),
    [(403, "AccessDenied", True), (400, "InvalidIdentityToken", True), (400, "IDPCommunicationError", False)],
)
def test_what_aws_refuses_is_told_with_its_endpoint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, broker: Broker, status: int, code: str, is_final: bool
) -> None:
    file = tmp_path / "token"
    file.write_text("canary.jwt")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(file))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r")
    monkeypatch.setenv("AWS_REGION", REGION)
    answer = f"<ErrorResponse><Error><Code>{code}</Code><Message>not you</Message></Error></ErrorResponse>".encode()
    with Cloud(lambda _asked: (status, answer)) as cloud:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", cloud.url)
        with pytest.raises(AuthenticationError, match=f"{code} not you") as raised:
            topics(settings(broker, bootstrap_timeout_ms=600_000 if is_final else 500) | MSK | DIRECT)
    assert cloud.url in str(raised.value)
    assert "canary" not in str(raised.value)
    assert (len(cloud.asked) == 1) == is_final


@pytest.mark.parametrize("is_up", [True, False])
@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL_STS", "AWS_CONTAINER_CREDENTIALS_FULL_URI"])
def test_no_error_about_a_url_of_aws_shows_its_user_or_query(
    monkeypatch: pytest.MonkeyPatch, broker: Broker, name: str, is_up: bool
) -> None:
    monkeypatch.setenv("AWS_REGION", REGION)
    if name == "AWS_ENDPOINT_URL_STS":
        in_environment(monkeypatch)
    module = 'software.amazon.msk.auth.iam.IAMLoginModule required awsRoleArn="arn:aws:iam::1:role/r";'
    with Cloud(lambda _asked: (418, b"")) as cloud:
        host = cloud.url.removeprefix("http://")
        if not is_up:
            host = f"127.0.0.1:{free_ports(1, '127.0.0.1')[0]}"
        monkeypatch.setenv(name, f"http://canary-user:canary-password@{host}/path?key=canary-query#canary-part")
        given = settings(broker, bootstrap_timeout_ms=500, sasl_jaas_config=module) | MSK | DIRECT
        with pytest.raises(AuthenticationError, match=f"http://{host}/path") as raised:
            topics(given)
    assert "canary" not in f"{raised.value} {raised.value!r}"


def test_without_keys_the_error_says_where_they_may_stand(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", REGION)
    with pytest.raises(AuthenticationError, match="AWS_WEB_IDENTITY_TOKEN_FILE"):
        topics(settings(broker) | MSK)


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL_STS", "AWS_CONTAINER_CREDENTIALS_FULL_URI"])
def test_keys_are_not_asked_for_over_an_open_network(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "http://10.0.0.1/")
    monkeypatch.setenv("AWS_REGION", REGION)
    module = 'software.amazon.msk.auth.iam.IAMLoginModule required awsRoleArn="arn:aws:iam::1:role/r";'
    with pytest.raises(monedula.ConfigError, match=name):
        monedula.Admin(settings(broker, sasl_jaas_config=module) | MSK)


def test_a_web_identity_token_of_aws_becomes_a_token(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    in_environment(monkeypatch)

    def answer(_asked: Asked) -> Answer:
        token = f"<WebIdentityToken>{broker.mint_token('anna')}</WebIdentityToken>"
        expiry = f"<Expiration>{keys_of()['Expiration']}</Expiration>"
        return 200, f"<R><GetWebIdentityTokenResult>{token}{expiry}</GetWebIdentityTokenResult></R>".encode()

    with Cloud(answer) as cloud:
        config = f"region={REGION},audience=https://kafka.example,duration_seconds=600,tag_team=a\\,b"
        kind = {"sasl_oauthbearer_method": "oidc", "sasl_oauthbearer_metadata_authentication_type": "aws_iam"}
        given = settings(broker, **kind, sasl_oauthbearer_config=f"{config},sts_endpoint={cloud.url}/sts")
        assert "orders" in topics(given | DIRECT)
        (asked,) = cloud.asked
        verify_signed(asked, cloud)
    assert asked.path == "/sts"
    assert asked.parameters == {
        "Action": "GetWebIdentityToken",
        "Version": "2011-06-15",
        "Audience.member.1": "https://kafka.example",
        "SigningAlgorithm": "ES384",
        "DurationSeconds": "600",
        "Tags.member.1.Key": "team",
        "Tags.member.1.Value": "a,b",
    }


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("region=r", "audience is missing"),
        ("region=r,audience=a,signing_algorithm=HS256", "ES384 or RS256"),
        ("region=r,audience=a,duration_seconds=5", "60 to 3600"),
        ("region=r,audience=a,regoin=x", "regoin"),
        ("audience=a", "region is missing"),
    ],
)
def test_what_aws_cannot_be_asked_is_an_error_of_the_setting(broker: Broker, config: str, told: str) -> None:
    kind = {"sasl.oauthbearer.metadata.authentication.type": "aws_iam", "sasl.oauthbearer.config": config}
    with pytest.raises(monedula.ConfigError, match=told) as raised:
        monedula.Admin(settings(broker, **kind))
    assert raised.value.key == "sasl.oauthbearer.config"
