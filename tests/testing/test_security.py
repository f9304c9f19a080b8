"""What `Broker` has about security, most of it seen without a client of monedula's."""

import base64
import json
import os
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import monedula
import pytest
from confluent_kafka.admin import AdminClient
from monedula.admin import QuotaEntity, ScramUpsertion
from monedula.errors import ArgumentError, AuthenticationError, BrokerCommandError, ConfigError
from monedula.testing import Acl, Broker, ClientCertificate

PASSWORD = "canary-7f3a"


def address(broker: Broker) -> tuple[str, int]:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    return host, int(port)


def shown(broker: Broker, host: str = "localhost", identity: tuple[Path, Path] | None = None) -> dict[str, object]:
    """The certificate that the broker shows to who trusts its CA."""
    context = ssl.create_default_context(cadata=broker.ca_pem)
    if identity is not None:
        context.load_cert_chain(*identity)
    with (
        socket.create_connection(address(broker), 30) as plain,
        context.wrap_socket(plain, server_hostname=host) as tls,
    ):
        return dict(tls.getpeercert() or {})


def test_settings_for_a_client_have_what_it_needs() -> None:
    with Broker(security="SASL_SSL", users={"anna": PASSWORD}) as broker:
        assert broker.client_settings("anna") == {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "ssl.ca.pem": broker.ca_pem,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "anna",
            "sasl.password": PASSWORD,
        }
        java = broker.client_settings("anna", mechanism="PLAIN", names="java")
        assert java["ssl.truststore.certificates"] == broker.ca_pem
        assert java["sasl.jaas.config"] == (
            f'org.apache.kafka.common.security.plain.PlainLoginModule required username="anna" password="{PASSWORD}";'
        )
        with pytest.raises(ArgumentError, match="one of the broker's users: anna"):
            broker.client_settings("eve")


@pytest.mark.parametrize(
    ("options", "mechanism"),
    [
        ({}, "SCRAM-SHA-512"),
        ({"mechanisms": ["PLAIN", "SCRAM-SHA-512"]}, "SCRAM-SHA-512"),
        ({"mechanisms": ["PLAIN", "SCRAM-SHA-256"]}, "PLAIN"),
        ({"mechanisms": ["OAUTHBEARER"]}, "OAUTHBEARER"),
        ({"settings": {"sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN"}}, "SCRAM-SHA-256"),
    ],
)
def test_settings_for_a_client_name_a_mechanism_that_the_broker_takes(options: dict[str, Any], mechanism: str) -> None:
    with Broker(security="SASL_PLAINTEXT", users={"anna": PASSWORD}, topics={"orders": 1}, **options) as broker:
        settings: dict[str, Any] = {**broker.client_settings("anna")}
        assert settings["sasl.mechanism"] == mechanism
        assert ("sasl.password" in settings) == (mechanism != "OAUTHBEARER")
        if mechanism == "OAUTHBEARER":
            settings["oauth_cb"] = lambda: broker.mint_token("anna")
        with monedula.Admin(settings) as admin:
            assert "orders" in admin.list_topics()


def test_a_certificate_is_in_the_settings_where_the_broker_asks_for_one() -> None:
    with Broker(security="SSL", client_auth="required") as broker:
        settings = broker.client_settings("anna")
        assert "BEGIN CERTIFICATE" in settings["ssl.certificate.pem"]
        assert "BEGIN PRIVATE KEY" in settings["ssl.key.pem"]
        assert "ssl.keystore.key" in broker.client_settings("anna", names="java")
        assert "ssl.key.pem" not in broker.client_settings()


def test_clients_of_each_listener_get_its_addresses() -> None:
    users = {"anna": PASSWORD}
    with Broker(2, {"orders": 2}, security="SASL_SSL", listeners=["PLAINTEXT"], users=users) as broker:
        assert broker.bootstrap_servers_of("SASL_SSL") == broker.bootstrap_servers
        plain = broker.client_settings(security="PLAINTEXT")
        assert plain == {
            "bootstrap.servers": broker.bootstrap_servers_of("PLAINTEXT"),
            "security.protocol": "PLAINTEXT",
        }
        for settings in (plain, broker.client_settings("anna")):
            admin = AdminClient(settings)
            told = admin.list_topics(timeout=30).brokers.values()
            servers = settings["bootstrap.servers"].split(",")
            assert sorted(f"{node.host}:{node.port}" for node in told) == sorted(servers)
            coordinator = admin.describe_consumer_groups(["etl"])["etl"].result(30).coordinator
            assert f"{coordinator.host}:{coordinator.port}" in servers
        with pytest.raises(ArgumentError, match="listens for PLAINTEXT, SASL_SSL, not for 'SSL'"):
            broker.bootstrap_servers_of("SSL")


def test_a_node_that_comes_back_has_all_its_ports() -> None:
    with Broker(security="PLAINTEXT", listeners=["SASL_PLAINTEXT"], users={"anna": PASSWORD}) as broker:
        before = [broker.bootstrap_servers_of(each) for each in ("PLAINTEXT", "SASL_PLAINTEXT")]
        broker.stop_node(1)
        for servers in before:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", int(servers.rpartition(":")[2])), 30)
        broker.start_node(1)
        for servers in before:
            socket.create_connection(("127.0.0.1", int(servers.rpartition(":")[2])), 30).close()


def test_rules_make_a_principal_of_a_certificate() -> None:
    rules = {"ssl.principal.mapping.rules": "RULE:^CN=([a-z]+)$/$1@example/U"}
    with Broker(security="SSL", client_auth="required", settings=rules) as broker:
        # librdkafka may just be changing its connection when it is asked for.
        with monedula.Admin(broker.client_settings("anna")) as admin:
            admin.list_topics()
            assert {each.principal for each in broker.connections()} == {"User:ANNA@EXAMPLE"}
        nobody = broker.client_certificate("Not a name")
        with pytest.raises((ConnectionError, ssl.SSLError)):
            asked(broker, nobody)


def asked(broker: Broker, certificate: ClientCertificate) -> bytes:
    """What the broker answers to a request for its versions."""
    context = ssl.create_default_context(cadata=broker.ca_pem)
    context.load_cert_chain(certificate.file, certificate.key_file)
    with (
        socket.create_connection(address(broker), 30) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as tls,
    ):
        tls.sendall(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
        answer = tls.recv(4)
        if not answer:
            raise ConnectionResetError("closed without an answer")
        return answer


def form(broker: Broker, body: bytes, method: str = "POST", **headers: str) -> tuple[int, dict[str, object]]:
    """A request to the token endpoint: the status and the JSON of its answer."""
    context = ssl.create_default_context(cadata=broker.ca_pem)
    request = urllib.request.Request(broker.token_endpoint, body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_the_token_endpoint_gives_tokens_to_users_alone() -> None:
    users = {"anna": "p ä:s&s"}
    grant = b"grant_type=client_credentials"
    with Broker(security="SASL_SSL", users=users) as broker:
        assert broker.token_endpoint == broker.token_endpoint
        status, answer = form(broker, grant + b"&client_id=anna&client_secret=p+%C3%A4%3As%26s&scope=orders")
        assert (status, answer["token_type"], answer["expires_in"]) == (200, "Bearer", 3600)
        claims = json.loads(base64.urlsafe_b64decode(str(answer["access_token"]).split(".")[1] + "=="))
        assert (claims["sub"], claims["scope"]) == ("anna", "orders")
        for written in ("anna:p ä:s&s", "anna:p+%C3%A4%3As%26s"):
            basic = base64.b64encode(written.encode()).decode()
            assert form(broker, grant, Authorization=f"Basic {basic}")[0] == 200
        assert form(broker, grant + b"&client_id=anna&client_secret=other") == (
            401,
            {"error": "invalid_client", "error_description": "no user of the broker has this name and password"},
        )
        assert form(broker, b"grant_type=password&client_id=anna")[1]["error"] == "unsupported_grant_type"
        assert form(broker, b"grant_type=%zz")[0] == 400
        assert form(broker, grant, "PUT")[0] == 405
        broker.set_token_lifetime(5)
        assert form(broker, grant + b"&client_id=anna&client_secret=p+%C3%A4%3As%26s")[1]["expires_in"] == 5


def test_a_client_logs_in_by_the_token_endpoint() -> None:
    with Broker(security="SASL_SSL", users={"anna": PASSWORD}, topics={"orders": 1}) as broker:
        settings = {
            **broker.client_settings(mechanism="OAUTHBEARER"),
            "sasl.oauthbearer.token.endpoint.url": broker.token_endpoint,
            "sasl.oauthbearer.client.id": "anna",
            "sasl.oauthbearer.client.secret": PASSWORD,
            "https.ca.pem": broker.ca_pem,
        }
        with monedula.Admin(settings) as admin:
            assert admin.describe_cluster().nodes
            assert "User:anna" in {each.principal for each in broker.connections()}
        wrong = {**settings, "sasl.oauthbearer.client.secret": "other"}
        with monedula.Admin(wrong) as admin, pytest.raises(AuthenticationError, match="invalid_client"):
            admin.describe_cluster()


def test_users_rights_and_quotas_outlive_the_broker(tmp_path: Path) -> None:
    given: dict[str, Any] = {"users": {"anna": "first"}, "super_users": ["User:ANONYMOUS"]}
    given |= {"security": "PLAINTEXT", "listeners": ["SASL_PLAINTEXT"], "data_dir": tmp_path}
    with Broker(**given) as broker, monedula.Admin(broker.client_settings(security="PLAINTEXT")) as admin:
        broker.set_password("anna", PASSWORD)
        broker.allow("anna", "READ", topic="orders")
        admin.alter_user_scram_credentials(ScramUpsertion("ben", PASSWORD, "SCRAM-SHA-256"))
        admin.alter_client_quotas({QuotaEntity(user="anna"): {"consumer_byte_rate": 1024}})
    with Broker(**given) as broker:
        assert broker.users() == ["anna", "ben"]
        assert broker.acls() == [Acl("User:anna", "READ", "TOPIC", "orders")]
        settings = broker.client_settings("anna", mechanism="PLAIN", security="SASL_PLAINTEXT")
        for user, mechanism in (("anna", "PLAIN"), ("anna", "SCRAM-SHA-512"), ("ben", "SCRAM-SHA-256")):
            own = {"sasl.username": user, "sasl.password": PASSWORD, "sasl.mechanism": mechanism}
            with monedula.Admin({**settings, **own}) as admin:
                assert admin.describe_cluster().nodes
        with monedula.Admin(broker.client_settings(security="PLAINTEXT")) as admin:
            assert admin.describe_client_quotas() == {QuotaEntity(user="anna"): {"consumer_byte_rate": 1024.0}}


def test_each_broker_has_a_ca_of_its_own() -> None:
    with Broker(security="SSL") as one, Broker(security="SSL") as other:
        assert shown(one, "127.0.0.1")
        context = ssl.create_default_context(cadata=other.ca_pem)
        with socket.create_connection(address(one), 30) as plain, pytest.raises(ssl.SSLCertVerificationError):
            context.wrap_socket(plain, server_hostname="localhost")


@pytest.mark.parametrize("flaw", ["expired", "not_yet_valid", "wrong_host", "unknown_ca", "self_signed"])
def test_a_certificate_that_no_client_should_take_is_shown(flaw: str) -> None:
    with Broker(security="SSL") as broker:
        broker.show_certificate(flaw)  # type: ignore[arg-type]
        with pytest.raises(ssl.SSLCertVerificationError):
            shown(broker)
        broker.show_certificate()
        assert shown(broker)


def test_files_are_private_and_removed_with_the_broker() -> None:
    with Broker(security="SSL", client_auth="required") as broker:
        certificate = broker.client_certificate("anna")
        assert shown(broker, identity=(certificate.file, certificate.key_file))
        assert certificate.key_file.stat().st_mode & 0o077 == 0
        assert broker.ca_file.read_text() == broker.ca_pem
    assert not certificate.key_file.exists()
    assert not certificate.key_file.parent.exists()


def test_rights_come_and_go() -> None:
    with Broker(super_users=["admin"]) as broker:
        broker.allow("anna", "READ", "DESCRIBE", topic="orders")
        broker.deny("*", "WRITE", topic="secret-", prefixed=True)
        read = Acl("User:anna", "READ", "TOPIC", "orders")
        denied = Acl("User:*", "WRITE", "TOPIC", "secret-", "PREFIXED", "DENY")
        assert set(broker.acls()) == {read, Acl("User:anna", "DESCRIBE", "TOPIC", "orders"), denied}
        broker.delete_acls([read])
        assert read not in broker.acls()
        with pytest.raises(ArgumentError, match="exactly one of"):
            broker.allow("anna", "READ")
        with pytest.raises(ArgumentError, match="at least one operation"):
            broker.allow("anna", topic="orders")
        with pytest.raises(ArgumentError, match='"REED" is none of'):
            broker.allow("anna", "REED", topic="orders")


def test_users_come_and_go() -> None:
    with Broker(security="SASL_PLAINTEXT", users={"anna": PASSWORD}) as broker:
        broker.set_password("ben", "other")
        assert broker.users() == ["anna", "ben"]
        assert broker.client_settings("ben")["sasl.password"] == "other"
        broker.remove_user("ben")
        with pytest.raises(BrokerCommandError, match='no user "ben"'):
            broker.remove_user("ben")
        assert broker.users() == ["anna"]


def test_a_broker_says_what_it_does_not_have() -> None:
    with Broker() as broker:
        with pytest.raises(BrokerCommandError, match="the broker has no TLS"):
            _ = broker.ca_pem
        with pytest.raises(BrokerCommandError, match="no authorizer"):
            broker.acls()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"security": "TLS"}, "none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"users": {"anna": PASSWORD}}, "users log in with SASL only"),
        ({"security": "SASL_SSL", "mechanisms": ["GSSAPI"]}, "none of PLAIN, SCRAM-SHA-256"),
        ({"client_auth": "required"}, "certificates are shown with TLS only"),
        ({"settings": {"super.users": "admin"}}, "super.users: .*written type:name"),
        ({"users": ["anna"]}, 'users: expected names with their passwords, such as {"anna": "secret"}, not .*list'),
        ({"users": "anna"}, "users: expected names with their passwords.*not .*str"),
        ({"users": {"anna": PASSWORD.encode()}}, "users: the password of 'anna' is a text, not of type bytes"),
        ({"users": {"anna": None}}, "users: the password of 'anna' is a text, not of type NoneType"),
        ({"users": {7: PASSWORD}}, "users: the name of a user is a text, not of type int"),
        ({"listeners": "PLAINTEXT"}, r'listeners: expected a list such as \["PLAINTEXT"\], not .*str'),
        ({"mechanisms": "PLAIN"}, r'mechanisms: expected a list such as \["SCRAM-SHA-512"\], not .*str'),
        ({"super_users": "admin"}, r'super_users: expected a list such as \["admin"\], not .*str'),
        ({"racks": "rack-1"}, r'racks: expected a list such as \["rack-1"\], not .*str'),
        ({"acls": ["READ"]}, r'acls: expected entries such as Acl\("User:anna".*, not of type str'),
        ({"settings": ["num.partitions=3"]}, 'settings: expected a dict such as {"num.partitions": 3}, not .*list'),
        ({"max_versions": ["Fetch"]}, 'max_versions: expected a dict such as {"Fetch": 11}, not .*list'),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(options: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        Broker(**options)  # type: ignore[arg-type]
    assert PASSWORD not in str(refused.value)


def test_passwords_are_in_no_text_log_or_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(5, "monedula.broker")
    with Broker(security="SASL_PLAINTEXT", users={"anna": PASSWORD}, data_dir=tmp_path, topics=["orders"]) as broker:
        with pytest.raises(ArgumentError) as refused:
            broker.set_password("anna", PASSWORD + "\ud800")
        broker.set_password("ben", PASSWORD)
        token = broker.mint_token("anna")
        told = [repr(broker), str(broker.users()), str(broker.connections()), str(refused.value)]
        told += [line.message for line in broker.log()]
    told += [record.getMessage() for record in caplog.records]
    assert any("listens on" in text for text in told), "the log was looked at"
    for secret in (PASSWORD, token):
        assert not [text for text in told if secret in text]
        assert not [path for path in tmp_path.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


def test_a_failed_start_has_no_password_in_its_local_variables() -> None:
    try:
        Broker(security="SASL_SSL", users={"anna": PASSWORD}, mechanisms=["NONE"])  # type: ignore[list-item]
    except ConfigError as error:
        frame = error.__traceback__
        while frame is not None:
            if frame.tb_frame.f_code.co_filename.endswith(("testing/broker.py", "_moving/__init__.py")):
                shown = {name: value for name, value in frame.tb_frame.f_locals.items() if name != "self"}
                assert PASSWORD not in repr(shown)
            frame = frame.tb_next
    else:
        raise AssertionError("it started")


COMMAND = [sys.executable, "-m", "monedula", "broker", "--port", "0"]


@pytest.mark.parametrize("where", ["environment", "file"])
def test_the_program_takes_passwords_from_environment_or_file(where: str, tmp_path: Path) -> None:
    ca, users = tmp_path / "ca.pem", tmp_path / "users"
    users.write_text(f"anna={PASSWORD}\n\n")
    options = ["--security", "SASL_SSL", "--ca-file", str(ca)]
    options += ["--user", "anna"] if where == "environment" else ["--users-file", str(users)]
    environment = os.environ | ({"MONEDULA_BROKER_PASSWORD_ANNA": PASSWORD} if where == "environment" else {})
    with subprocess.Popen([*COMMAND, *options], stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            servers = process.stdout.readline().strip().removeprefix("bootstrap.servers=")
            host, _, port = servers.rpartition(":")
            context = ssl.create_default_context(cafile=str(ca))
            with socket.create_connection((host, int(port)), 30) as plain:
                context.wrap_socket(plain, server_hostname=host).close()
        finally:
            process.terminate()
        assert process.wait(30) == 0


def test_the_program_says_where_it_looked_for_a_password() -> None:
    done = subprocess.run(
        [*COMMAND, "--security", "SASL_SSL", "--user", "an.na"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "neither MONEDULA_BROKER_PASSWORD_AN_NA nor --users-file has a password" in done.stderr
