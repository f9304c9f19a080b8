"""A secret that is in a client's settings is in nothing that its process writes or shows."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TopicFactory
from tests.kafka.secured import SecuredKafka, User
from tests.secrets import CANARY, assert_no_secret, assert_no_secret_in_command_lines, assert_no_secret_in_files
from tests.security import canary
from tests.security.real.clients import written

pytestmark = pytest.mark.jvm
ROOT = Path(__file__).parents[3]
USER = User("canary", CANARY)
TIMEOUT_SECONDS = 110.0


@pytest.fixture
def job(secured: SecuredKafka, topic: TopicFactory, tmp_path: Path) -> dict[str, Any]:
    """A topic with a record, and settings with the secret: good ones, and each mistake."""
    name = topic(cluster=secured)
    written(secured, name)
    secured.set_password(USER, CANARY)
    for kind in ("TOPIC", "GROUP"):
        secured.allow(USER, "ALL", kind, name if kind == "TOPIC" else f"of-{name}")
    good = {
        **secured.client_settings("SASL_SSL", "SCRAM-SHA-512", USER, names="librdkafka"),
        "default.api.timeout.ms": 20_000,
    }
    java = secured.client_settings("SASL_SSL", "SCRAM-SHA-256", USER)
    nobody = secured.client_settings("SASL_SSL", "PLAIN", User("nobody", CANARY), names="librdkafka")
    certificate = secured.client_settings("SSL_REQUIRED", names="librdkafka")
    client = secured.certificates.client("anna")
    by_token = secured.client_settings("SASL_SSL", "OAUTHBEARER", USER, names="librdkafka")
    del by_token["oauth_cb"]
    token_file = tmp_path / "token"
    token_file.write_text(f"{CANARY}.{CANARY}.{CANARY}")
    secret_file = tmp_path / "secret.properties"
    secret_file.write_text(f"password={CANARY}\n")
    wrong_key = {**certificate, "ssl.key.location": str(client.encrypted_key("another")), "ssl.key.password": CANARY}
    return {
        "topic": name,
        "settings": {
            "good": good,
            "good, by Java's names": java,
            "good, from a file": {
                **good,
                "sasl.password": f"${{file:{secret_file}:password}}",
                "config.providers": "file",
            },
            "refused": nobody,
            "refused, plaintext": {
                **nobody,
                "bootstrap.servers": secured.bootstrap_of("SASL_PLAINTEXT"),
                "security.protocol": "SASL_PLAINTEXT",
            },
            "wrong password of a key": wrong_key,
            "wrong password of a store": {
                **certificate,
                "ssl.keystore.location": str(client.pkcs12("another")),
                "ssl.keystore.password": CANARY,
            },
            "a key that is none": {**certificate, "ssl.key.pem": CANARY},
            "a misspelled name": {**good, "sasl.pasword": CANARY},
            "a JAAS line that is none": {**java, "sasl.jaas.config": f"PlainLoginModule username=x password={CANARY}"},
            "a module that is not allowed": {
                **java,
                "sasl.jaas.config": f'com.example.Evil required password="{CANARY}";',
            },
            "the password of another type": {**good, "sasl.password": [1, CANARY]},
            "a refused delegation token": {
                **java,
                "sasl.jaas.config": java["sasl.jaas.config"].replace(";", " tokenauth=true;"),
            },
            "a refused token": {**by_token, "sasl.oauthbearer.token.endpoint.url": f"file://{token_file}"},
            "an identity provider that does not answer": {
                **by_token,
                "bootstrap.timeout.ms": 1000,
                "sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/token",
                "sasl.oauthbearer.client.id": "canary",
                "sasl.oauthbearer.client.secret": CANARY,
            },
            "wrong password of an assertion's key": {
                **by_token,
                "sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/token",
                "sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
                "sasl.oauthbearer.assertion.private.key.file": str(client.encrypted_key("another")),
                "sasl.oauthbearer.assertion.private.key.passphrase": CANARY,
            },
            "no mechanism": {key: value for key, value in good.items() if key != "sasl.mechanisms"},
        },
    }


@pytest.mark.parametrize("kind", canary.KINDS)
def test_a_client_shows_no_secret(kind: str, job: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps(job))
    file.chmod(0o600)
    _, shown = run([sys.executable, "-m", "tests.security.canary", kind, str(file)], tmp_path)
    assert shown.count("===") == len(job["settings"])
    # Those that are good. What the thread of the log writes may stand between the word and its line end.
    assert len(re.findall(r"ended(?! with)", shown)) >= 3, shown
    assert shown.count("ended with AuthenticationError") >= 5, shown
    assert "ConfigError" in shown


def run(command: list[str], directory: Path, **environment: str) -> tuple[int, str]:
    """Exit code and output of a program, once output, command line and all files that it wrote have no secret."""
    before = [path for path in directory.rglob("*") if path.is_file()]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(directory), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as running:
        assert_no_secret_in_command_lines([running.pid])
        shown, _ = running.communicate(timeout=TIMEOUT_SECONDS)
    assert_no_secret("the output", shown)
    assert_no_secret_in_files(directory, before)
    return running.returncode, shown.decode(errors="replace")


COMMANDS = {
    "topics": ["topics", "describe", "TOPIC"],
    "groups": ["groups", "list"],
    "consume": ["consume", "TOPIC", "--from", "earliest"],
    "produce": ["produce", "TOPIC", "-i", "INPUT"],
}


# A process for each of the settings: of commands that administrate one is enough.
@pytest.mark.parametrize(
    "command", [*(name for name in COMMANDS if name != "groups"), pytest.param("groups", marks=pytest.mark.thorough)]
)
def test_a_command_shows_no_secret(command: str, job: dict[str, Any], tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("a value\n")
    words = [{"TOPIC": job["topic"], "INPUT": str(lines)}.get(word, word) for word in COMMANDS[command]]
    ended: dict[str, int] = {}
    said: dict[str, str] = {}
    for number, (name, settings) in enumerate(job["settings"].items()):
        if isinstance(settings.get("sasl.password"), list):
            continue  # no file of properties has such
        file = tmp_path / f"{number}.properties"
        file.write_text("".join(f"{key}={_as_property(value)}\n" for key, value in settings.items()))
        ended[name], shown = run([sys.executable, "-m", "monedula", *words, "-F", str(file)], tmp_path)
        said[name] = shown
    assert ended["good"] == ended["good, from a file"] == 0, said
    assert (ended["refused"], ended["a misspelled name"]) == (1, 2)


def test_a_command_takes_its_secret_from_the_environment(job: dict[str, Any], tmp_path: Path) -> None:
    settings = {key: value for key, value in job["settings"]["good"].items() if key != "sasl.password"}
    options = [word for key, value in settings.items() for word in ("-X", f"{key}={value}")]
    options += ["-X", "config.providers=env", "-X", "sasl.password=${env:KAFKA_PASSWORD}"]
    _, shown = run([sys.executable, "-m", "monedula", "topics", "list", *options], tmp_path, KAFKA_PASSWORD=CANARY)
    assert job["topic"] in shown


def test_a_secret_on_the_command_line_is_refused(job: dict[str, Any]) -> None:
    settings = job["settings"]["good"]
    options = [word for key, value in settings.items() for word in ("-X", f"{key}={value}")]
    ran = subprocess.run(
        [sys.executable, "-m", "monedula", "topics", "list", *options], cwd=ROOT, capture_output=True, text=True
    )
    assert ran.returncode == 2
    assert "sasl.password" in ran.stderr
    assert "${env:" in ran.stderr
    assert_no_secret("standard error", ran.stderr.encode())


def _as_property(value: object) -> str:
    return str(value).replace("\\", "\\\\").replace("\n", "\\n")
