"""How every client ends whose broker's certificate is refused; no secret of TLS is in anything that clients write."""

import logging
import pickle
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import monedula
import pytest

from tests.kafka.secured import Certificates, SecuredKafka
from tests.secrets import assert_no_secret_in_records

TIMEOUT_SECONDS = 30.0
CANARY = "canary-5b1e"


@pytest.fixture
def stranger(secured: SecuredKafka) -> dict[str, str]:
    """Settings that trust another authority than the brokers'."""
    authority = secured.certificates.other_ca
    servers = secured.bootstrap_of("SSL")
    return {"bootstrap.servers": servers, "security.protocol": "SSL", "ssl.ca.location": str(authority.file)}


def refusal(call: Callable[[], object]) -> monedula.errors.AuthenticationError:
    """What the call raises. A call that did not end with the refusal would end with the time-out of its test."""
    with pytest.raises(monedula.errors.AuthenticationError, match="no authority that is trusted") as raised:
        call()
    return raised.value


@pytest.mark.jvm
def test_a_consumer_ends_with_the_refusal_whatever_it_reads_by(stranger: dict[str, str]) -> None:
    with monedula.Consumer(stranger) as consumer:
        consumer.assign({("orders", 0): 0})
        for _ in range(2):
            refusal(lambda: consumer.poll(timeout=TIMEOUT_SECONDS))
    with monedula.Consumer({**stranger, "group.id": "g"}, topics=["orders"]) as member:
        for _ in range(2):
            refusal(lambda: member.poll(timeout=TIMEOUT_SECONDS))


@pytest.mark.jvm
def test_a_read_ends_with_the_refusal(stranger: dict[str, str]) -> None:
    refusal(lambda: list(monedula.read(stranger, "orders")))


@pytest.mark.jvm
def test_a_producer_fails_its_records_with_the_refusal(stranger: dict[str, str]) -> None:
    with monedula.Producer(stranger) as producer:
        future = producer.send("orders", "x")
        refusal(lambda: future.result(timeout=TIMEOUT_SECONDS))


@pytest.mark.jvm
@pytest.mark.asyncio
async def test_the_clients_of_asyncio_end_with_the_refusal(stranger: dict[str, str]) -> None:
    async with monedula.AsyncConsumer(stranger) as consumer:
        consumer.assign({("orders", 0): 0})
        with pytest.raises(monedula.errors.AuthenticationError):
            await consumer.poll(timeout=TIMEOUT_SECONDS)
    async with monedula.AsyncAdmin(stranger) as admin:
        with pytest.raises(monedula.errors.AuthenticationError):
            await admin.list_topics()


def written_about(settings: dict[str, str], caught: list[warnings.WarningMessage]) -> str:
    """What a client writes while it fails to connect: its repr, its errors with their locals, and warnings."""
    texts = []
    try:
        with monedula.Consumer(settings) as consumer:
            texts += [repr(consumer), repr(consumer.health()), repr(consumer.metrics())]
            consumer.assign({("orders", 0): 0})
            consumer.poll(timeout=TIMEOUT_SECONDS)
    except monedula.KafkaError as error:
        shown = traceback.TracebackException.from_exception(error, capture_locals=True)
        ours = [frame for frame in shown.stack if "/tests/" not in frame.filename]
        texts += [str(error), repr(error), repr(pickle.dumps(error)), *("".join(str(frame.locals)) for frame in ours)]
    return "\n".join([*texts, *(str(warning.message) for warning in caught)])


def test_no_secret_of_tls_is_in_what_a_client_writes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    certificates = Certificates(tmp_path)
    client = certificates.client("anna")
    good = {
        "bootstrap.servers": "localhost:1",
        "bootstrap.timeout.ms": "300",
        "security.protocol": "SSL",
        "ssl.ca.location": str(certificates.ca.file),
    }
    key_line = client.key_pem.splitlines()[1]
    store = {"ssl.keystore.location": str(client.pkcs12(CANARY)), "ssl.keystore.password": CANARY}
    inline = {"ssl.certificate.pem": client.chain_pem, "ssl.key.pem": client.key_pem, "ssl.key.password": CANARY}
    wrong = {"ssl.keystore.location": str(client.pkcs12("another")), "ssl.keystore.password": CANARY}
    misspelled = {"ssl.keystore.pasword": CANARY, "ssl.key.pme": client.key_pem}
    contradiction = {**inline, "ssl.certificate.location": str(client.chain)}
    caplog.set_level(1, "monedula")
    logging.getLogger("monedula").setLevel(1)
    for settings in (store, inline, wrong, misspelled, contradiction):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            text = written_about({**good, **settings}, caught) + caplog.text
        assert text.strip()
        assert CANARY not in text
        assert key_line not in text
    assert assert_no_secret_in_records(caplog.records, CANARY, key_line) > 0
    assert CANARY not in repr(monedula.config_keys())
