"""AWS_MSK_IAM: tokens that are presigned URLs. No request leaves the machine."""

import base64
import time
from urllib.parse import parse_qs, urlsplit

import monedula
import pytest
from monedula._config.msk_iam import MskIam, session_name

BROKERS = "b-1.demo.ab12.c3.kafka.eu-central-1.amazonaws.com:9098"
JAAS = "software.amazon.msk.auth.iam.IAMLoginModule required"
SETTINGS = {"bootstrap.servers": BROKERS, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "AWS_MSK_IAM"}


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of nobody."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/none")


def provider(bootstrap_servers: str = BROKERS) -> MskIam:
    return MskIam({"bootstrap.servers": bootstrap_servers}, {})


def test_a_token_is_a_presigned_url_of_the_clusters_region() -> None:
    before = int(time.time())  # the date in a token has whole seconds
    token, expiry = provider()()
    after = time.time()
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    query = parse_qs(url.query)
    assert "=" not in token
    assert url.netloc == "kafka.eu-central-1.amazonaws.com"
    assert query["Action"] == ["kafka-cluster:Connect"]
    assert query["X-Amz-Expires"] == ["900"]
    assert query["X-Amz-Credential"][0].endswith("/eu-central-1/kafka-cluster/aws4_request")
    assert "X-Amz-Signature" in query
    assert "User-Agent" in query
    assert before + 900 <= expiry <= after + 900
    assert "canary" not in f"{token!r} {provider()!r}"


def test_the_region_comes_from_the_environment_where_the_addresses_do_not_show_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(monedula.ConfigError, match="AWS_REGION"):
        provider("localhost:9098")
    monkeypatch.setenv("AWS_REGION", "us-east-2")
    assert "us-east-2" in repr(provider("localhost:9098"))


def test_the_name_of_a_roles_session_stays_the_same() -> None:
    assert session_name() == session_name()
    assert len(session_name()) <= 64


def test_options_of_the_login_module_are_known_by_name() -> None:
    with pytest.raises(monedula.ConfigError, match="awsProfil is no option"):
        monedula.Admin(SETTINGS | {"sasl.jaas.config": f'{JAAS} awsProfil="canary";'})


def test_java_settings_make_a_client() -> None:
    handler = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
    settings = SETTINGS | {"sasl.jaas.config": f"{JAAS};", "sasl.client.callback.handler.class": handler}
    monedula.Admin(settings).close()
