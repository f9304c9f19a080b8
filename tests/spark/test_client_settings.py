"""Settings on their way to driver and executors: looked up where they are used, and never printed."""

import json
import os
import pickle
from pathlib import Path

import monedula
import pytest
from monedula.errors import ConfigError
from monedula.spark.options.kafka_settings import ClientSettings, shipped
from monedula.spark.sink.options import SinkOptions
from monedula.spark.source.options import SourceOptions
from monedula.testing import Broker
from pyspark import SparkFiles

from tests.security.cloud import Answer, Asked, Cloud
from tests.security.proxy import ForwardProxy

SECRET = "canary-5b1e"
SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
PROVIDED = {**SERVERS, "kafka.config.providers": "env,file", "kafka.client.id": "${env:MONEDULA_TEST_CLIENT}"}


@pytest.fixture
def as_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of shipped files, in this process as if it were one of Spark's workers."""
    folder = tmp_path / "shipped"
    folder.mkdir()
    monkeypatch.setattr(SparkFiles, "_root_directory", str(folder))
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    working = tmp_path / "working"
    working.mkdir()
    monkeypatch.chdir(working)
    return folder


def test_values_are_looked_up_where_the_client_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONEDULA_TEST_CLIENT", "of the driver")
    options = SourceOptions.parse({**PROVIDED, "subscribe": "orders"})
    sent = pickle.dumps(ClientSettings.of(options.kafka))
    assert b"of the driver" not in sent
    monkeypatch.setenv("MONEDULA_TEST_CLIENT", "of the executor")
    found = dict(pickle.loads(sent).here())
    assert found["client.id"] == "of the executor"
    assert not [name for name in found if name.startswith("config.providers")]


def test_an_executor_asks_its_own_cloud_for_tokens_and_goes_through_the_proxy() -> None:
    with Broker(security="SASL_SSL", users={"anna": "x"}, topics=["orders"]) as broker, ForwardProxy() as proxy:

        def answer(_asked: Asked) -> Answer:
            return 200, json.dumps({"access_token": broker.mint_token("anna"), "expires_in": 3600}).encode()

        with Cloud(answer) as cloud:
            login = {
                **broker.client_settings("anna", mechanism="OAUTHBEARER"),
                "sasl.oauthbearer.metadata.authentication.type": "azure_imds",
                "sasl.oauthbearer.config": "query=resource=api://kafka&client_id=me",
                "sasl.oauthbearer.token.endpoint.url": cloud.url,
                "proxy.url": proxy.url("socks5h"),
            }
            options = {f"kafka.{name}": str(value) for name, value in login.items()}
            sent = pickle.dumps(ClientSettings.of(SourceOptions.parse({**options, "subscribe": "orders"}).kafka))
            assert cloud.asked == []
            with monedula.Admin(pickle.loads(sent).here()) as admin:
                assert "orders" in admin.list_topics()
            assert len(cloud.asked) == 1
        assert set(proxy.asked) == {broker.bootstrap_servers}


def test_a_value_that_only_executors_have_is_no_error_of_the_driver() -> None:
    settings = ClientSettings.of(SinkOptions.parse({**PROVIDED, "topic": "orders"}).kafka)
    with pytest.raises(ConfigError) as raised:
        settings.here()
    assert raised.value.key == "kafka.client.id"
    assert "this process has no environment variable MONEDULA_TEST_CLIENT" in str(raised.value)


def test_what_is_wrong_whatever_a_variable_says_is_an_error_of_the_driver() -> None:
    with pytest.raises(ConfigError, match="none of env, file, directory") as raised:
        SinkOptions.parse({**PROVIDED, "kafka.config.providers": "vault"})
    assert raised.value.key == "kafka.config.providers"


def test_a_file_is_found_where_it_was_shipped_to(as_worker: Path) -> None:
    (as_worker / "ca.pem").touch()
    assert shipped("ca.pem") == str(as_worker / "ca.pem")
    Path("ca.pem").touch()  # an executor works in that folder
    assert shipped("ca.pem") == "ca.pem"
    assert shipped("missing.pem") == "missing.pem"
    assert shipped("/etc/ca.pem") == "/etc/ca.pem"


def test_a_file_is_found_by_a_streaming_query_on_the_driver(as_worker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark names a folder of the session there, and puts files into the one above."""
    (as_worker / "ca.pem").touch()
    monkeypatch.setattr(SparkFiles, "_root_directory", str(as_worker / "session"))
    assert shipped("ca.pem") == str(as_worker / "ca.pem")


def test_settings_name_shipped_files(as_worker: Path) -> None:
    (as_worker / "ca.pem").touch()
    (as_worker / "kafka.properties").write_text(f"password={SECRET}\n")
    given = {
        "ssl.ca.location": "ca.pem",
        "client.id": "ca.pem",
        "config.providers": "file",
        "config.providers.file.param.allowed.paths": os.fspath(Path.cwd()),
        "sasl.password": "${file:kafka.properties:password}",
    }
    assert dict(ClientSettings.of(given).here()) == {
        "ssl.ca.location": str(as_worker / "ca.pem"),
        "client.id": "ca.pem",
        "sasl.password": SECRET,
    }


@pytest.mark.parametrize("parse", [SourceOptions.parse, SinkOptions.parse])
def test_no_value_is_printed(parse: type) -> None:
    options = parse({**SERVERS, "subscribe": "orders", "kafka.client.id": SECRET, "topic": "copies"})
    for each in (options, options.kafka, ClientSettings.of(options.kafka), ClientSettings.of(options.kafka).here()):
        assert SECRET not in repr(each)
        assert SECRET not in str(each)
