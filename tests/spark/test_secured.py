"""A secured Kafka: source and sink in a cluster of several JVMs, and where their secrets are not."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TopicFactory
from tests.kafka.secured import ANNA, SCRAM, SecuredKafka, User
from tests.kafka.secured.kdc import Kdc
from tests.secrets import CANARY, assert_no_secret, assert_no_secret_in_command_lines, assert_no_secret_in_files
from tests.spark._support import processes
from tests.spark._support.driver import Driver
from tests.spark.test_local_cluster import TWO_EXECUTORS

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

RECORDS = 40
USER = User("spark", CANARY)
WRONG = User("spark", f"{CANARY}-wrong")


@pytest.fixture
def topics(secured: SecuredKafka, topic: TopicFactory) -> tuple[str, str]:
    """A topic with records, and an empty one; `USER` may use both."""
    source, target = topic(2, cluster=secured), topic(2, cluster=secured)
    secured.helper.produce(source, [{"value": f"{at}", "partition": at % 2} for at in range(RECORDS)])
    secured.set_password(USER, CANARY)
    for name in (source, target):
        secured.allow(USER, "ALL", "TOPIC", name)
    return source, target


def job(
    driver: Callable[..., Driver],
    folder: Path,
    topics: tuple[str, str],
    options: dict[str, Any],
    wrong: list[dict[str, Any]],
    **conf: str,
) -> tuple[Driver, dict[str, Any]]:
    """Run `programs.secured`; the driver, whose log has ended, and what it returned."""
    source, target = topics
    file = folder / "job.json"
    told = {"options": options, "source": source, "target": target, "directory": str(folder), "wrong": wrong}
    file.write_text(json.dumps(told))
    (folder / "events").mkdir()
    shown = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(folder / "events"),
    }
    own = {name.replace("_", "."): value for name, value in conf.items()}
    other = driver("secured", {"job": str(file)}, master=TWO_EXECUTORS, conf={**shown, **own})
    other.wait_for("streamed", 200)
    assert_no_secret_in_command_lines([other.pid, *processes.descendants(other.pid)])
    returned = other.finish()
    file.unlink()
    assert (returned["read"], returned["executors"]) == (RECORDS, 2)
    return other, returned


def options_of(settings: dict[str, Any], **more: str) -> dict[str, str]:
    """Settings of a client as options."""
    own = {name.replace("_", "."): value for name, value in more.items()}
    return {f"kafka.{name}": str(value) for name, value in {**settings, **own}.items()}


def nothing_shows_it(other: Driver, folder: Path, returned: dict[str, Any], *known: Path) -> None:
    """Neither Spark's plans, UI, event log, checkpoint, logs, nor any other file that it wrote."""
    assert_no_secret("plans and pages", returned["shown"].encode())
    for error in returned["errors"]:
        assert_no_secret("an error", error.encode())
    assert assert_no_secret_in_files(folder, known) > 0
    assert assert_no_secret_in_files(other.log_path.parent, known) > 0


@pytest.mark.thorough
@pytest.mark.parametrize("mechanism", [SCRAM[1], SCRAM[0]])
def test_a_job_with_the_jaas_line_that_it_had(
    secured: SecuredKafka,
    topics: tuple[str, str],
    driver: Callable[..., Driver],
    checkpoint: Path,
    mechanism: str,
) -> None:
    """Options as they are for Spark's own source, with a truststore of Java."""
    trusted = secured.certificates.ca.truststore("JKS", "changeit")
    settings = secured.client_settings("SASL_SSL", mechanism, USER)
    settings |= {
        "ssl.truststore.location": str(trusted),
        "ssl.truststore.type": "JKS",
        "ssl.truststore.password": "changeit",
    }
    jaas = str(settings["sasl.jaas.config"])
    wrong = [
        {"kafka.sasl.jaas.config": jaas.replace(CANARY, WRONG.password)},
        {"kafka.sasl.jaas.config": jaas.replace("ScramLoginModule", "EvilLoginModule")},
        {"kafka.sasl.pasword": CANARY},
    ]
    other, returned = job(driver, checkpoint, topics, options_of(settings), wrong)
    assert secured.helper.offsets(topics[1])
    written = sum(end for _, end in secured.helper.offsets(topics[1]).values())
    assert written == 2 * RECORDS
    nothing_shows_it(other, checkpoint, returned)
    for_password, for_module, for_name = returned["errors"][:3]
    assert "AuthenticationError" in for_password
    assert "login module is none of those that are known" in for_module
    assert "kafka.sasl.pasword" in for_name
    of_sink = returned["errors"][3:]
    assert "AuthenticationError" in of_sink[0]


def test_a_job_whose_secret_is_shipped_in_a_file(
    secured: SecuredKafka,
    topics: tuple[str, str],
    driver: Callable[..., Driver],
    checkpoint: Path,
    tmp_path: Path,
) -> None:
    """Files that `--files` shipped, by their names alone, on the driver and on executors: no task has the secret."""
    secret, authority = tmp_path / "kafka.properties", tmp_path / "authority.pem"
    secret.write_text(f"password={CANARY}\n")
    authority.write_text(secured.certificates.ca.pem)
    settings = secured.client_settings("SASL_SSL", "SCRAM-SHA-512", USER, names="librdkafka")
    settings |= {
        "ssl.ca.location": authority.name,
        "config.providers": "file",
        "sasl.password": f"${{file:{secret.name}:password}}",
    }
    wrong = [{"kafka.sasl.password": f"${{file:{secret.name}:passwort}}"}]
    other, returned = job(driver, checkpoint, topics, options_of(settings), wrong, spark_files=f"{secret},{authority}")
    nothing_shows_it(other, checkpoint, returned, secret)
    assert all("has no entry passwort" in error for error in returned["errors"])


@pytest.mark.slow
def test_a_job_with_a_client_certificate(
    secured: SecuredKafka, topics: tuple[str, str], driver: Callable[..., Driver], checkpoint: Path
) -> None:
    client = secured.certificates.client(ANNA.name)
    settings = secured.client_settings("SSL_REQUIRED")
    settings |= {
        "ssl.keystore.location": str(client.jks(CANARY)),
        "ssl.keystore.type": "JKS",
        "ssl.keystore.password": CANARY,
        "ssl.key.password": CANARY,
    }
    wrong = [{"kafka.ssl.keystore.password": f"{CANARY}-wrong"}]
    other, returned = job(driver, checkpoint, topics, options_of(settings), wrong)
    nothing_shows_it(other, checkpoint, returned)
    assert all("kafka.ssl.keystore" in error for error in returned["errors"])


@pytest.mark.thorough
def test_a_job_with_a_keytab_that_is_shipped(
    secured: SecuredKafka,
    kerberos: Kdc,
    topics: tuple[str, str],
    driver: Callable[..., Driver],
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """GSSAPI on the driver and on executors, each of which finds the keytab by its name alone."""
    monkeypatch.setenv("KRB5_CONFIG", str(kerberos.settings))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'none.cache'}")
    keytab = Path(shutil.copy(kerberos.keytab(ANNA.name), tmp_path / "shipped.keytab"))
    settings = secured.client_settings("SASL_PLAINTEXT", "GSSAPI", names="librdkafka")
    settings["sasl.kerberos.keytab"] = keytab.name
    wrong = [{"kafka.sasl.kerberos.service.name": "streams"}]
    _, returned = job(driver, checkpoint, topics, options_of(settings), wrong, spark_files=str(keytab))
    assert all("streams@localhost" in error for error in returned["errors"])
