"""docs/security.md, and the tokens of docs/admin.md: their examples run, against a broker of the test."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import monedula
import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from monedula.testing import Broker

DOCS = Path(__file__).resolve().parents[2] / "docs"
EXAMPLES = re.findall(r"```python\n(.*?)```", (DOCS / "security.md").read_text(), flags=re.DOTALL)
PASSWORD = "a password"


def example(part: str) -> str:
    found: list[str] = [source for source in EXAMPLES if part in source]
    assert len(found) == 1
    return found[0]


def run(source: str, **given: object) -> dict[str, Any]:
    names = {"monedula": monedula, **given}
    exec(compile(source, "security.md", "exec"), names)
    return names


@pytest.fixture
def secured() -> Iterator[Broker]:
    with Broker(security="SASL_SSL", users={"anna": PASSWORD}, topics=["orders:1"]) as broker:
        yield broker


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    (tmp_path / "kafka.properties").write_text(f"password={PASSWORD}\n")
    return tmp_path


def topics(settings: dict[str, Any]) -> list[str]:
    with monedula.Admin(settings) as admin:
        return list(admin.list_topics())


def test_a_client_with_a_certificate_gets_in(tmp_path: Path) -> None:
    with Broker(security="SSL", client_auth="required", topics=["orders:1"]) as broker:
        certificate = broker.client_certificate("anna")
        key = load_pem_private_key(certificate.key_pem.encode(), None)
        encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"..."))
        for name, text in [
            ("ca.pem", broker.ca_pem),
            ("client.pem", certificate.pem),
            ("client.key", encrypted.decode()),
        ]:
            (tmp_path / name).write_text(text)
        source = "".join(EXAMPLES[:2]).replace("/etc/kafka", str(tmp_path))
        settings = run(source.replace("kafka.example:9093", broker.bootstrap_servers))["settings"]
        assert topics(settings) == ["orders"]


def test_values_come_from_providers(secured: Broker, secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTNAME", "a-host")
    source = example("${env:HOSTNAME}").replace("/run/secrets", str(secrets))
    run(source.replace("kafka.example:9093", secured.bootstrap_servers))["consumer"].close()


def test_a_user_logs_in(secured: Broker, secrets: Path) -> None:
    source = example("SCRAM-SHA-512").replace("/run/secrets", str(secrets))
    settings = run(source.replace("kafka.example:9093", secured.bootstrap_servers))["settings"]
    assert topics(settings | {"ssl.ca.pem": secured.ca_pem}) == ["orders"]


def test_a_function_brings_tokens(secured: Broker) -> None:
    token = SimpleNamespace(token=secured.mint_token("anna"), expires_on=4_000_000_000)
    settings = secured.client_settings(mechanism="OAUTHBEARER")
    credential = SimpleNamespace(get_token=lambda _: token)
    with run(example("def token()"), credential=credential, settings=settings)["consumer"] as consumer:
        assert consumer.partitions_of("orders") == [("orders", 0)]


@pytest.mark.parametrize("part", ["AWS_MSK_IAM", "GSSAPI", "azure_imds", "proxy.url"])
def test_settings_of_clusters_elsewhere_are_accepted(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key")
    monkeypatch.setenv("PROXY_PASSWORD", "secret")
    monedula.Consumer(run(example(part))["settings"]).close()


def test_a_secured_broker_shows_a_bad_certificate() -> None:
    run(example("show_certificate"))


def test_tokens_are_administered(secured: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    (source,) = re.findall(r"```py\n(.*?)```", (DOCS / "admin.md").read_text(), flags=re.DOTALL)
    run(source, settings=secured.client_settings("anna"), Admin=monedula.Admin, timedelta=timedelta)
    assert "DelegationToken" in capsys.readouterr().out
