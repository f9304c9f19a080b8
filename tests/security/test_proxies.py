"""Connections through proxies: to brokers by SOCKS5 and CONNECT, to registries and to token endpoints.

Names that only the proxy knows, what it was asked for, and the addresses from which the broker sees clients come show
connections that go around it.
"""

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import monedula
import pyarrow as pa
import pytest
from monedula.errors import AuthenticationError
from monedula.testing import Broker

from tests.conftest import skip_loudly
from tests.kafka.cluster import free_ports
from tests.security.proxy import SOURCE, UNKNOWN_NAME, ForwardProxy
from tests.security.real.clients import CLIENTS

WITHOUT_PROXIES_VARIABLE = "MONEDULA_TESTS_WITHOUT_PROXIES"
"""Environment variable by which `.ci/run` says that this machine cannot have proxies."""

SCHEMES = ("socks5h", "socks5", "http")
LOGIN = ("anna", "canary-p@ss:/wörd")
ESCAPED = "anna:canary-p%40ss%3A%2Fw%C3%B6rd"
EVERYTHING = {"producer": 0, "consumer": 1, "async consumer": 1, "admin": 1, "read": 1}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(security="SASL_SSL", listeners=["PLAINTEXT"], users={"anna": "secret"}) as started:
        yield started


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)
    broker.create_topic(name, 1)
    return name


def by_unknown_name(servers: str) -> str:
    """The same servers by a name that only the proxy knows."""
    return re.sub(r"[^,:]+:", f"{UNKNOWN_NAME}:", servers)


def plain(broker: Broker, proxy_url: str, **more: Any) -> dict[str, Any]:
    servers = broker.bootstrap_servers_of("PLAINTEXT")
    own = {name.replace("_", "."): value for name, value in more.items()}
    return {"bootstrap.servers": servers, "proxy.url": proxy_url, **own}


@pytest.mark.parametrize("login", [None, LOGIN])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_client_goes_through_the_proxy(
    broker: Broker, topic: str, scheme: str, login: tuple[str, str] | None
) -> None:
    with ForwardProxy({UNKNOWN_NAME: "127.0.0.1"}, login=login) as proxy:
        settings = plain(broker, proxy.url(scheme, ESCAPED if login else ""))
        if scheme != "socks5":
            settings["bootstrap.servers"] = by_unknown_name(settings["bootstrap.servers"])
        assert {kind: does(settings, topic) for kind, does in CLIENTS.items()} == EVERYTHING
        host, _, port = settings["bootstrap.servers"].partition(":")
        assert proxy.asked.count(f"{host}:{port}") >= len(CLIENTS)
        # The address of the metadata, not that of the settings.
        assert f"127.0.0.1:{port}" in proxy.asked


def test_no_connection_goes_around_the_proxy(broker: Broker, topic: str) -> None:
    with (
        ForwardProxy({UNKNOWN_NAME: "127.0.0.1"}) as proxy,
        monedula.Consumer(plain(broker, proxy.url("socks5h"), group_id="g", client_id="behind"), [topic]) as consumer,
        monedula.Producer(plain(broker, proxy.url("http"), client_id="behind")) as producer,
    ):
        producer.send(topic, b"x").result(60)
        consumer.poll(timeout=0.5)
        behind = [connection.host for connection in broker.connections() if connection.client_id == "behind"]
    assert len(behind) >= 2
    assert set(behind) == {SOURCE}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tls_and_the_login_are_those_of_the_broker(broker: Broker, topic: str, scheme: str) -> None:
    with ForwardProxy({UNKNOWN_NAME: "127.0.0.1"}) as proxy:
        settings = {**broker.client_settings("anna"), "proxy.url": proxy.url(scheme)}
        assert CLIENTS["admin"](settings, topic) == 1
        assert proxy.asked
        if scheme == "socks5":
            return
        settings["bootstrap.servers"] = by_unknown_name(settings["bootstrap.servers"])
        with pytest.raises(AuthenticationError, match=f"not for {UNKNOWN_NAME}"):
            CLIENTS["admin"](settings, topic)


def test_kafka_pythons_name_is_taken(broker: Broker, topic: str) -> None:
    with ForwardProxy() as proxy:
        settings = {"bootstrap_servers": broker.bootstrap_servers_of("PLAINTEXT"), "socks5_proxy": proxy.url("socks5")}
        with monedula.Admin(**settings) as admin:
            assert topic in admin.list_topics()
        assert proxy.asked


def test_the_environment_is_not_heeded_for_brokers(broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY"):
        monkeypatch.setenv(name, "socks5h://127.0.0.1:1")
    with monedula.Admin({"bootstrap.servers": broker.bootstrap_servers_of("PLAINTEXT")}) as admin:
        assert topic in admin.list_topics()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("given", ["anna:canary-wrong", ""])
def test_a_refused_login_is_final_and_shows_no_password(broker: Broker, scheme: str, given: str) -> None:
    with ForwardProxy(login=LOGIN) as proxy:
        url = f"{scheme}://{given}{'@' if given else ''}{proxy.address}"
        with monedula.Admin(plain(broker, url, bootstrap_timeout_ms=600_000)) as admin:
            for _ in range(2):
                with pytest.raises(AuthenticationError, match=r"proxy\.url") as raised:
                    admin.list_topics(timeout=60)
        text = f"{raised.value} {raised.value!r}"
        assert f"{scheme}://{proxy.address}" in text
        assert broker.bootstrap_servers_of("PLAINTEXT") in text
        assert "canary" not in text
        assert proxy.asked == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_proxy_that_hangs_is_given_up_in_the_time_for_a_connection(broker: Broker, scheme: str) -> None:
    with ForwardProxy(is_silent=True) as proxy:
        url = proxy.url(scheme, "anna:canary")
        settings = plain(broker, url, socket_connection_setup_timeout_ms=200, bootstrap_timeout_ms=1_000)
        with (
            monedula.Admin(settings) as admin,
            pytest.raises(monedula.KafkaError, match=f"through the proxy {scheme}://{proxy.address} within") as raised,
        ):
            admin.list_topics(timeout=2)
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize(
    ("scheme", "told"), [("socks5h", "the host is unreachable"), ("socks5", "socks5h"), ("http", "502 No Way")]
)
def test_a_broker_that_the_proxy_cannot_reach_is_named_with_the_proxy(scheme: str, told: str) -> None:
    with ForwardProxy() as proxy:
        settings = {"bootstrap.servers": f"{UNKNOWN_NAME}:9092", "proxy.url": proxy.url(scheme)}
        with (
            monedula.Admin({**settings, "bootstrap.timeout.ms": 1_000}) as admin,
            pytest.raises(monedula.KafkaError, match=re.escape(told)) as raised,
        ):
            admin.list_topics(timeout=2)
        assert f"{scheme}://{proxy.address}" in str(raised.value)
        assert f"{UNKNOWN_NAME}:9092" in str(raised.value)


def test_a_proxy_that_is_not_there_is_named(broker: Broker) -> None:
    (port,) = free_ports(1, "127.0.0.1")
    settings = plain(broker, f"socks5h://anna:canary@127.0.0.1:{port}", bootstrap_timeout_ms=500)
    told = rf"proxy socks5h://127\.0\.0\.1:{port}: it is not reached"
    with monedula.Admin(settings) as admin, pytest.raises(monedula.KafkaError, match=told) as raised:
        admin.list_topics(timeout=2)
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize("url", ["canary", "socks5h://u:canary@host", "https://u:canary@host:3128", "socks4://h:1080"])
@pytest.mark.parametrize("key", ["proxy.url", "schema.registry.proxy.url", "sasl.oauthbearer.proxy.url"])
def test_what_is_no_proxy_is_an_error_of_the_setting(broker: Broker, key: str, url: str) -> None:
    settings = {
        **broker.client_settings("anna", mechanism="OAUTHBEARER"),
        "sasl.oauthbearer.token.endpoint.url": "https://idp.invalid/token",
        "sasl.oauthbearer.client.id": "id",
        "sasl.oauthbearer.client.secret": "secret",
        "schema.registry.url": "http://registry.invalid",
        key: url,
    }
    with pytest.raises(monedula.ConfigError, match="its value is not shown") as raised:
        monedula.Consumer(settings)
    assert raised.value.key == key
    assert "canary" not in f"{raised.value} {raised.value!r}"


# ---- HTTP


@pytest.fixture
def registered() -> Iterator[tuple[Broker, dict[str, Any]]]:
    with Broker(registry=True, topics={"orders": 1}) as broker:
        assert broker.schema_registry_url is not None
        url = re.sub(r"//[^:/]+:", f"//{UNKNOWN_NAME}:", broker.schema_registry_url)
        yield broker, {"bootstrap.servers": broker.bootstrap_servers, "schema.registry.url": url}


def write_with_a_schema(settings: Mapping[str, Any]) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    with monedula.Producer({**settings, "schema.registry.max.retries": 0}) as producer:
        producer.send_batch(pa.table({"id": [1]}), "orders", value=monedula.Avro(schema)).result(60)


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
@pytest.mark.parametrize("key", ["schema.registry.proxy.url", "proxy.url"])
def test_the_registry_is_asked_through_the_proxy(
    registered: tuple[Broker, dict[str, Any]], scheme: str, key: str
) -> None:
    _, settings = registered
    with ForwardProxy({UNKNOWN_NAME: "127.0.0.1"}, login=LOGIN) as proxy:
        write_with_a_schema({**settings, key: proxy.url(scheme, ESCAPED)})
        assert any(asked.startswith(UNKNOWN_NAME) for asked in proxy.asked)
        assert any(asked.startswith("127.0.0.1") for asked in proxy.asked) == (key == "proxy.url")


def test_the_registry_may_be_asked_directly_where_brokers_are_behind_a_proxy(
    registered: tuple[Broker, dict[str, Any]],
) -> None:
    broker, settings = registered
    settings["schema.registry.url"] = broker.schema_registry_url
    with ForwardProxy() as proxy:
        write_with_a_schema({**settings, "proxy.url": proxy.url("socks5h"), "schema.registry.proxy.url": "direct"})
        assert set(proxy.asked) == {broker.bootstrap_servers}


def test_a_registry_behind_a_proxy_that_refuses_names_the_proxy(registered: tuple[Broker, dict[str, Any]]) -> None:
    _, settings = registered
    with ForwardProxy(login=LOGIN) as proxy:
        for scheme in ("socks5h", "http"):
            given = {**settings, "schema.registry.proxy.url": proxy.url(scheme, "anna:canary-wrong")}
            with pytest.raises(monedula.errors.SchemaRegistryError, match=f"{scheme}://{proxy.address}") as raised:
                write_with_a_schema(given)
            assert "schema.registry.proxy.url" in str(raised.value)
            assert "canary" not in str(raised.value)


@pytest.fixture
def tokens() -> Iterator[tuple[Broker, dict[str, Any]]]:
    with Broker(security="SASL_SSL", users={"anna": "secret"}, topics={"orders": 1}) as broker:
        yield (
            broker,
            {
                **broker.client_settings("anna", mechanism="OAUTHBEARER"),
                "sasl.oauthbearer.token.endpoint.url": broker.token_endpoint,
                "sasl.oauthbearer.client.id": "anna",
                "sasl.oauthbearer.client.secret": "secret",
                "https.ca.pem": broker.ca_pem,
            },
        )


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
@pytest.mark.parametrize("key", ["sasl.oauthbearer.proxy.url", "proxy.url", "environment"])
def test_tokens_are_asked_for_through_the_proxy(
    tokens: tuple[Broker, dict[str, Any]], scheme: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, settings = tokens
    endpoint = broker.token_endpoint.split("/")[2]
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with ForwardProxy(login=LOGIN) as proxy:
        url = proxy.url(scheme, ESCAPED)
        if key == "environment":
            monkeypatch.setenv("ALL_PROXY", url)
        else:
            settings[key] = url
        with monedula.Admin(settings) as admin:
            assert "orders" in admin.list_topics()
        assert endpoint in proxy.asked
        assert (broker.bootstrap_servers in proxy.asked) == (key == "proxy.url")


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
def test_a_proxy_that_refuses_who_asks_for_tokens_is_named(tokens: tuple[Broker, dict[str, Any]], scheme: str) -> None:
    _, settings = tokens
    with ForwardProxy(login=LOGIN) as proxy:
        settings["sasl.oauthbearer.proxy.url"] = proxy.url(scheme, "anna:canary-wrong")
        with (
            monedula.Admin(settings) as admin,
            pytest.raises(AuthenticationError, match=f"through the proxy {scheme}://{proxy.address}") as raised,
        ):
            admin.list_topics()
    assert "canary" not in str(raised.value)


# ---- proxies of others


@contextmanager
def running(command: list[str], port: int) -> Iterator[Callable[[], str]]:
    """A proxy as a process, by what it has logged so far."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        deadline = time.monotonic() + 30
        while process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert time.monotonic() < deadline

        def logged() -> str:
            process.terminate()
            return process.communicate(timeout=30)[0]

        yield logged
    finally:
        process.kill()
        process.communicate(timeout=30)


def program(name: str) -> str:
    """The path of a proxy's program; the test is skipped without it."""
    found = shutil.which(name)
    if found is None:
        reason = f"no {name} in PATH; see CONTRIBUTING.md"
        if os.environ.get(WITHOUT_PROXIES_VARIABLE):
            pytest.skip(reason)
        skip_loudly("TESTS WITH A REAL PROXY ARE SKIPPED", reason)
    return found


def test_microsocks_connects(broker: Broker, topic: str) -> None:
    (port,) = free_ports(1, "127.0.0.1")
    command = [program("microsocks"), "-i", "127.0.0.1", "-p", str(port), "-u", "anna", "-P", "canary"]
    with running(command, port) as logged:
        for scheme in ("socks5h", "socks5"):
            settings = plain(broker, f"{scheme}://anna:canary@127.0.0.1:{port}")
            assert CLIENTS["admin"](settings, topic) == 1
        with pytest.raises(AuthenticationError, match=r"proxy\.url"):
            CLIENTS["admin"](plain(broker, f"socks5h://anna:wrong@127.0.0.1:{port}"), topic)
        log = logged()
    assert log.count("connected to 127.0.0.1:" + broker.bootstrap_servers_of("PLAINTEXT").rpartition(":")[2]) >= 2, log


def test_tinyproxy_connects(broker: Broker, topic: str, tmp_path: Path) -> None:
    (port,) = free_ports(1, "127.0.0.1")
    file = tmp_path / "tinyproxy.conf"
    file.write_text(f"Port {port}\nListen 127.0.0.1\nTimeout 60\nBasicAuth anna canary\nLogLevel Connect\n")
    with running([program("tinyproxy"), "-d", "-c", str(file)], port) as logged:
        settings = plain(broker, f"http://anna:canary@127.0.0.1:{port}")
        assert CLIENTS["admin"](settings, topic) == 1
        assert CLIENTS["admin"]({**broker.client_settings("anna"), "proxy.url": settings["proxy.url"]}, topic) == 1
        with pytest.raises(AuthenticationError, match=r"proxy\.url"):
            CLIENTS["admin"](plain(broker, f"http://anna:wrong@127.0.0.1:{port}"), topic)
        log = logged()
    for listener in ("PLAINTEXT", "SASL_SSL"):
        assert f"CONNECT {broker.bootstrap_servers_of(listener)}" in log, log
