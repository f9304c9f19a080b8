"""GSSAPI: tickets of the cache and of keytabs, what goes wrong with them, and brokers that speak it in another way."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import monedula
import pytest

from tests.cli.processes import run
from tests.conftest import TopicFactory
from tests.kafka.secured import ANNA, REAUTH_MS, SecuredKafka, User
from tests.kafka.secured.kdc import REALM, Kdc
from tests.kafka.secured.listeners import LISTENERS
from tests.security.real.clients import CLIENTS, QUICK, TIMEOUT_SECONDS, produce, read
from tests.security.real.mangling import Mangling

pytestmark = [pytest.mark.jvm, pytest.mark.skipif(sys.platform == "win32", reason="Windows has no GSSAPI library")]
WITHIN_SECONDS = 50.0
# Longer than any test waits, so that no error is due to this timeout.
PATIENT = {"default.api.timeout.ms": 100_000, "bootstrap.timeout.ms": 100_000, "max.block.ms": 100_000}
CONNECTIONS = 20


@pytest.fixture(autouse=True)
def settings_of_kerberos(kerberos: Kdc, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The realm of the tests, and no ticket."""
    monkeypatch.setenv("KRB5_CONFIG", str(kerberos.settings))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'no.cache'}")
    monkeypatch.delenv("KRB5_CLIENT_KTNAME", raising=False)


@pytest.fixture
def name(secured: SecuredKafka, topic: TopicFactory) -> str:
    """A topic."""
    return topic(cluster=secured)


@pytest.fixture
def ticket(kerberos: Kdc, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The ticket cache of the process has one of `ANNA`."""
    cache = kerberos.kinit(ANNA.name)
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")
    return cache


@pytest.fixture
def user(kerberos: Kdc) -> Iterator[str]:
    """A principal of the test's own."""
    principal = f"user-{time.time_ns()}"
    yield principal
    kerberos.administer(f"delprinc -force {principal}")


def by_cache(secured: SecuredKafka, listener: str = "SASL_SSL") -> dict[str, Any]:
    """Settings that name neither principal nor keytab."""
    settings = secured.client_settings(listener, "SCRAM-SHA-512", names="librdkafka")
    for key in ("sasl.username", "sasl.password"):
        del settings[key]
    return {**settings, "sasl.mechanisms": "GSSAPI"}


def by_keytab(secured: SecuredKafka, listener: str = "SASL_SSL", **more: Any) -> dict[str, Any]:
    """Settings of librdkafka that name both."""
    return secured.client_settings(listener, "GSSAPI", names="librdkafka", **more)


def every_client_works(settings: dict[str, Any], name: str) -> None:
    """Each does what needs the brokers."""
    assert {kind: does(settings, name) for kind, does in CLIENTS.items()} == {
        "producer": 0,
        "consumer": 1,
        "async consumer": 1,
        "admin": 1,
        "read": 1,
    }


def refused(settings: dict[str, Any], does: Callable[[dict[str, Any], str], int] = produce) -> str:
    """What the error says of a client that is not let in."""
    with pytest.raises(monedula.errors.AuthenticationError) as raised:
        does({**settings, **PATIENT}, "any")
    said = str(raised.value)
    assert "GSSAPI" in said
    return said


@pytest.mark.usefixtures("ticket")
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_every_client_logs_in_with_the_ticket_of_the_cache(secured: SecuredKafka, name: str, listener: str) -> None:
    every_client_works(by_cache(secured, listener), name)


@pytest.mark.parametrize("names", ["java", "librdkafka"])
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_every_client_logs_in_with_a_keytab(
    secured: SecuredKafka, name: str, tmp_path: Path, listener: str, names: Any
) -> None:
    every_client_works(secured.client_settings(listener, "GSSAPI", names=names), name)
    assert list(tmp_path.iterdir()) == [], "the user's ticket cache was written"


def test_a_login_module_of_java_reads_a_ticket_cache(secured: SecuredKafka, name: str, kerberos: Kdc) -> None:
    module = "com.sun.security.auth.module.Krb5LoginModule required"
    cache = kerberos.kinit(ANNA.name)
    jaas = f'{module} useTicketCache=true ticketCache="{cache}" serviceName="kafka";'
    assert produce({**by_cache(secured), "sasl.jaas.config": jaas}, name) == 0


def test_the_first_principal_of_a_keytab_logs_in_without_a_name(secured: SecuredKafka, name: str) -> None:
    settings = by_keytab(secured)
    del settings["sasl.kerberos.principal"]
    assert produce(settings, name) == 0


def test_many_connections_log_in_at_once(secured: SecuredKafka, name: str) -> None:
    """Each client gets its own tickets, at the same time as the others."""
    settings = by_keytab(secured, "SASL_PLAINTEXT")
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        offsets = list(threads.map(lambda _: produce(settings, name), range(CONNECTIONS)))
    assert sorted(offsets) == list(range(CONNECTIONS))
    # And one client whose connections share the tickets.
    group = {"group.id": f"of-{name}", "auto.offset.reset": "earliest"}
    with monedula.Consumer({**settings, **group, **QUICK}, [name]) as consumer:
        rows, deadline = 0, time.monotonic() + TIMEOUT_SECONDS
        while rows < CONNECTIONS:
            assert time.monotonic() < deadline, consumer.health()
            rows += consumer.poll(0.5).num_rows
        consumer.commit()


@pytest.mark.usefixtures("ticket")
@pytest.mark.parametrize("means", ["cache", "keytab"])
def test_sessions_are_renewed_over_the_same_connection(secured: SecuredKafka, name: str, means: str) -> None:
    settings = (by_cache if means == "cache" else by_keytab)(secured, "REAUTH")
    with monedula.Producer({**settings, **QUICK}) as producer:
        producer.send(name, b"x").result(TIMEOUT_SECONDS)
        before = producer.metrics()["connections_opened"]
        until = time.monotonic() + 2.5 * REAUTH_MS / 1000
        while time.monotonic() < until:
            producer.send(name, b"x").result(TIMEOUT_SECONDS)
        assert producer.metrics()["connections_opened"] == before


def test_tickets_of_a_keytab_are_renewed_before_they_end(
    secured: SecuredKafka, name: str, kerberos: Kdc, user: str
) -> None:
    """Sessions outlast the tickets, of which there are several."""
    keytab = kerberos.add(user, "-maxlife 4sec")
    secured.allow(User(user, ""), "ALL", "TOPIC", name)
    settings = {**by_keytab(secured, "REAUTH"), "sasl.kerberos.keytab": str(keytab), "sasl.kerberos.principal": user}
    asked = kerberos.tickets_given(user)
    with monedula.Producer({**settings, **QUICK}) as producer:
        until = time.monotonic() + 4 * REAUTH_MS / 1000
        while time.monotonic() < until:
            producer.send(name, b"x").result(TIMEOUT_SECONDS)
    assert kerberos.tickets_given(user) - asked >= 2


@pytest.mark.timeout(WITHIN_SECONDS)
@pytest.mark.parametrize("kind", CLIENTS)
def test_every_kind_of_client_tells_that_there_is_no_ticket(secured: SecuredKafka, kind: str) -> None:
    said = refused(by_cache(secured), CLIENTS[kind])
    assert "no.cache" in said
    assert "kinit" in said
    assert "sasl.kerberos.keytab" in said


@pytest.mark.timeout(WITHIN_SECONDS)
def test_an_expired_ticket_is_reported(
    secured: SecuredKafka, name: str, kerberos: Kdc, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = kerberos.kinit(ANNA.name, lifetime="1s")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        assert time.monotonic() < deadline, "the ticket does not expire"
        try:
            produce(by_cache(secured), name)
        except monedula.errors.AuthenticationError as error:
            said = str(error)
            break
    assert "expired" in said
    assert "kinit" in said


@pytest.mark.usefixtures("ticket")
@pytest.mark.timeout(WITHIN_SECONDS)
def test_a_service_that_the_kdc_does_not_know_is_reported(secured: SecuredKafka) -> None:
    said = refused({**by_cache(secured), "sasl.kerberos.service.name": "streams"})
    assert "streams@localhost" in said
    assert "sasl.kerberos.service.name" in said


@pytest.mark.usefixtures("ticket")
@pytest.mark.timeout(WITHIN_SECONDS)
def test_a_principal_without_a_ticket_is_reported(secured: SecuredKafka) -> None:
    said = refused({**by_cache(secured), "sasl.kerberos.principal": "nobody"})
    assert f"nobody@{REALM}" in said


@pytest.mark.timeout(WITHIN_SECONDS)
def test_a_keytab_of_no_use_is_reported(secured: SecuredKafka, kerberos: Kdc, tmp_path: Path, user: str) -> None:
    def of(keytab: Path, principal: str = ANNA.name) -> str:
        keys = {"sasl.kerberos.keytab": str(keytab), "sasl.kerberos.principal": principal}
        return refused({**by_keytab(secured), **keys})

    assert "No such file" in of(tmp_path / "missing.keytab")
    garbage = tmp_path / "garbage.keytab"
    garbage.write_bytes(b"garbage")
    assert "has no key" in of(garbage)
    assert "klist -kt" in of(kerberos.keytab(ANNA.name), "boris")
    old = kerberos.add(user)
    kerberos.administer(f"cpw -randkey {user}")
    assert "exported again" in of(old, user)
    kerberos.administer(f"delprinc -force {user}")
    assert "sasl.kerberos.principal" in of(old, user)
    kerberos.add(user)


@pytest.mark.timeout(WITHIN_SECONDS)
def test_a_ticket_cache_that_is_garbage_is_reported(
    secured: SecuredKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MIT's library would crash on it, now and then."""
    garbage = tmp_path / "garbage.cache"
    garbage.write_bytes(b"garbage\n")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{garbage}")
    for _ in range(5):
        assert "ticket cache" in refused(by_cache(secured))


@pytest.mark.timeout(WITHIN_SECONDS)
def test_a_missing_library_is_an_error_that_says_what_to_install(secured: SecuredKafka) -> None:
    program = f"""
import monedula
try:
    with monedula.Producer({by_cache(secured)!r}) as producer:
        producer.send("any", b"x").result()
except monedula.errors.AuthenticationError as error:
    print(error)
"""
    environment = {**os.environ, "MONEDULA_GSSAPI_LIBRARY": "/nowhere/libgssapi_krb5.so.2"}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=40, check=True
    )
    assert "/nowhere/libgssapi_krb5.so.2" in ran.stdout
    assert "libgssapi-krb5-2 on Debian" in ran.stdout


def test_the_command_line_logs_in(secured: SecuredKafka, name: str) -> None:
    given = [f"-X{key}={value}" for key, value in by_keytab(secured).items() if key != "bootstrap.servers"]
    listed = run("topics", "list", *given, servers=secured.bootstrap_of("SASL_SSL"))
    assert listed.returncode == 0, listed.stderr.decode()
    assert name in listed.stdout.decode()


def test_the_library_is_loaded_by_the_first_login_and_not_by_the_import() -> None:
    program = "import monedula, pathlib; print('gssapi' in pathlib.Path('/proc/self/maps').read_text())"
    if not Path("/proc/self/maps").exists():
        pytest.skip("no /proc")
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=40, check=True)
    assert ran.stdout.strip() == "False"


@pytest.mark.timeout(WITHIN_SECONDS)
def test_a_kdc_that_is_away_is_tried_again_and_named(
    secured: SecuredKafka, kerberos: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = tmp_path / "krb5.conf"
    away.write_text(kerberos.settings.read_text().replace(f"127.0.0.1:{kerberos.port}", "127.0.0.1:1"))
    monkeypatch.setenv("KRB5_CONFIG", str(away))
    # From `bootstrap.timeout.ms` on it would be an AuthenticationError: that of a login that could not even begin.
    with pytest.raises(monedula.KafkaError, match="KDC") as raised:
        read({**by_keytab(secured), "bootstrap.timeout.ms": 60_000, "default.api.timeout.ms": 3_000}, "any")
    assert not isinstance(raised.value, monedula.errors.AuthenticationError)


@pytest.mark.timeout(WITHIN_SECONDS)
def test_a_kdc_that_is_silent_holds_nobody_up(
    secured: SecuredKafka, kerberos: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library waits for it much longer than a connection may take."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        conf = tmp_path / "krb5.conf"
        conf.write_text(kerberos.settings.read_text().replace(f"127.0.0.1:{kerberos.port}", f"127.0.0.1:{port}"))
        monkeypatch.setenv("KRB5_CONFIG", str(conf))
        deadlines = {"socket.connection.setup.timeout.ms": 1_000, "bootstrap.timeout.ms": 3_000}
        with pytest.raises(monedula.KafkaError, match="login did not end"):
            read({**by_keytab(secured), **deadlines, "default.api.timeout.ms": 3_000}, "any")


GARBAGE: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda _: b"",
    "garbage": lambda _: b"garbage" * 30,
    "half": lambda token: token[: len(token) // 2],
    "all but the last byte": lambda token: token[:-1],
    "a bit that was changed": lambda token: token[:-1] + bytes([token[-1] ^ 1]),
    "a length that lies": lambda token: token[:1] + b"\x84\x7f\xff\xff\xff" + token[2:],
    "more than any token": lambda token: token + bytes(200_000),
    "the token twice": lambda token: token + token,
    "one byte": lambda _: b"\x60",
}


@pytest.mark.usefixtures("ticket")
@pytest.mark.timeout(WITHIN_SECONDS)
@pytest.mark.parametrize("message", [1, 2])
@pytest.mark.parametrize("what", GARBAGE)
def test_what_a_broker_sends_instead_of_a_token_is_refused(secured: SecuredKafka, what: str, message: int) -> None:
    """The first message is the broker's proof of who it is, the second one its offer of protection."""
    with Mangling(LISTENERS["SASL_PLAINTEXT"], secured, message, GARBAGE[what]) as broker:
        settings = {**by_cache(secured, "SASL_PLAINTEXT"), "bootstrap.servers": broker.address}
        refused(settings)
        assert broker.mangled == 1, "it was tried again, or never"


@pytest.mark.usefixtures("ticket")
@pytest.mark.timeout(WITHIN_SECONDS)
@pytest.mark.parametrize("message", [1, 2])
def test_a_broker_in_the_middle_that_changes_nothing_is_let_through(
    secured: SecuredKafka, name: str, message: int
) -> None:
    """The judge of the test above."""
    with Mangling(LISTENERS["SASL_PLAINTEXT"], secured, message, bytes) as broker:
        settings = {**by_cache(secured, "SASL_PLAINTEXT"), "bootstrap.servers": broker.address}
        # This broker lacks the requests that idempotence needs.
        assert produce({**settings, "enable.idempotence": False}, name) == 0
        assert broker.mangled == 1


def test_a_client_that_waits_for_a_kdc_can_be_closed(
    secured: SecuredKafka, kerberos: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        conf = tmp_path / "krb5.conf"
        port = silent.getsockname()[1]
        conf.write_text(kerberos.settings.read_text().replace(f"127.0.0.1:{kerberos.port}", f"127.0.0.1:{port}"))
        monkeypatch.setenv("KRB5_CONFIG", str(conf))
        producer = monedula.Producer(by_keytab(secured))

        def send() -> None:
            with pytest.raises(monedula.KafkaError):
                producer.send("any", b"x").result(TIMEOUT_SECONDS)

        waits = threading.Thread(target=send)
        waits.start()
        silent.accept()[0].close()  # the library has asked
        producer.close(0)
        waits.join(TIMEOUT_SECONDS)
        assert not waits.is_alive()
