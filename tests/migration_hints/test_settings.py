"""Every setting of every other client is known here, or the error says what to use. The lists are the clients' own."""

import ctypes
import inspect
import re
import subprocess
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.admin
import confluent_kafka
import kafka
import monedula
import pytest
from monedula._migration_hints import advice_for
from monedula._migration_hints.settings import OF_SHARE_CONSUMER, PREFIXES, SETTINGS

from tests.interop.java import command
from tests.kafka import KafkaUnavailable

SERVERS = {"bootstrap.servers": "127.0.0.1:1"}
KNOWN = {name for key in monedula.config_keys() for name in (key.name, *key.aliases)} | {"config.providers"}
CONFLUENT = [
    "default.topic.config",
    "error_cb",
    "logger",
    "oauth_cb",
    "on_commit",
    "on_delivery",
    "stats_cb",
    "throttle_cb",
]
"""What confluent-kafka has besides librdkafka's, from its documentation."""


def unexplained(names: Iterable[str]) -> list[str]:
    plain = (name.replace("_", ".") for name in names)
    return sorted(name for name in plain if name not in KNOWN and advice_for(name) is None)


def librdkafka_names(folder: Path) -> list[str]:
    """The first column of the table that librdkafka itself writes of its properties."""
    (library,) = (Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs").glob("librdkafka*.so*")
    table = folder / "properties"
    c, rdkafka = ctypes.CDLL(None), ctypes.CDLL(str(library))
    c.fopen.restype = ctypes.c_void_p
    file = ctypes.c_void_p(c.fopen(str(table).encode(), b"w"))
    rdkafka.rd_kafka_conf_properties_show(file)
    c.fclose(file)
    rows = re.findall(r"^([a-z][\w.]+) +\| +[*CP] +\|", table.read_text(), flags=re.MULTILINE)
    assert len(rows) > 150
    return rows


def test_every_property_of_librdkafka_is_known_or_explained(tmp_path: Path) -> None:
    assert unexplained([*librdkafka_names(tmp_path), *CONFLUENT]) == []


@pytest.mark.parametrize("form", ["avro.Avro", "json_schema.JSON", "protobuf.Protobuf"])
@pytest.mark.parametrize("part", ["Serializer", "Deserializer"])
def test_every_option_of_confluents_serializers_is_known_or_explained(form: str, part: str) -> None:
    module, _, name = f"confluent_kafka.schema_registry.{form}{part}".rpartition(".")
    options = vars(getattr(import_module(module), name))["_default_conf"]
    assert "subject.name.strategy" in options
    assert unexplained(options) == []


@pytest.mark.parametrize(
    "client", [aiokafka.AIOKafkaConsumer, aiokafka.AIOKafkaProducer, aiokafka.admin.AIOKafkaAdminClient]
)
def test_every_parameter_of_aiokafka_is_known_or_explained(client: type) -> None:
    assert unexplained(set(inspect.signature(client).parameters) - {"partitioner"}) == []


@pytest.mark.parametrize("client", [kafka.KafkaConsumer, kafka.KafkaProducer, kafka.KafkaAdminClient])
def test_every_parameter_of_kafka_python_is_known_or_explained(client: type) -> None:
    names = client.DEFAULT_CONFIG  # type: ignore[attr-defined]
    assert len(names) > 30
    assert unexplained(names) == []


@pytest.mark.jvm
def test_every_setting_of_javas_clients_is_known_or_explained() -> None:
    try:
        source = command(Path(__file__).with_name("SettingNames.java"))
    except KafkaUnavailable as error:
        pytest.skip(str(error))
    ran = subprocess.run(source, check=True, capture_output=True, text=True, timeout=100)
    names = ran.stdout.split()
    assert len(names) > 100
    assert unexplained(names) == []


def test_no_setting_of_ours_is_called_one_of_others() -> None:
    assert sorted(KNOWN & SETTINGS.keys()) == []
    assert [name for name in KNOWN if name.startswith(tuple(PREFIXES))] == []


def test_advice_names_settings_that_exist() -> None:
    named = {
        name
        for told in [*SETTINGS.values(), *PREFIXES.values(), *OF_SHARE_CONSUMER.values()]
        for name in re.findall(r"(?<![\w.(])[a-z]+(?:\.[a-z0-9]+)+(?![\w(*])(?!\.\*)", told)
    }
    assert len(named) > 25
    assert sorted(named - KNOWN - {"functools.partial", "future.exception"}) == []


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("enable.partition.eof", "read(...)"),
        ("enable_auto_offset_store", "finish(batch)"),
        ("stats_cb", "metrics()"),
        ("default.topic.config", "into the dict itself"),
        ("value_deserializer", "value=monedula.Json(schema)"),
        ("value.serializer", "Producer(settings, value=monedula.Avro(schema))"),
        ("ssl_cafile", "ssl.ca.location"),
        ("ssl.engine.location", "leave it out"),
    ],
)
@pytest.mark.parametrize("client", [monedula.Consumer, monedula.Producer])
def test_who_gives_a_setting_of_another_client_is_told_what_to_use(client: type, name: str, says: str) -> None:
    with pytest.raises(monedula.ConfigError) as caught:
        client({**SERVERS, name: print if name == "value_deserializer" else {} if "default" in name else 1})
    assert str(caught.value).startswith(f"{name} is a setting of other clients; here: ")
    assert says in str(caught.value)
    assert caught.value.key == name


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("enable.auto.offset.store", "accept(batch)"),
        ("enable.partition.eof", "batches(timeout=1.0)"),
        ("key.deserializer", "ShareConsumer(settings, key=monedula.Json(schema))"),
        ("value_deserializer", "ShareConsumer(settings, value=monedula.Json(schema))"),
        ("rebalance_cb", "on_event=f"),
        ("topic.blacklist", "subscribe(['jobs', 'mails'])"),
        ("where", "filter the batch"),
        ("assignors", "group.share.assignors"),
    ],
)
def test_who_gives_such_a_setting_to_a_share_consumer_is_told_what_that_has(name: str, says: str) -> None:
    for client in (monedula.ShareConsumer, monedula.AsyncShareConsumer):
        with pytest.raises(monedula.ConfigError, match=f"{re.escape(name)} is .*; here: ") as caught:
            client({**SERVERS, "group.id": "queue", name: "x"})
        assert says in str(caught.value)
        assert "finish(" not in str(caught.value)
        assert caught.value.key == name


def test_the_mode_of_a_share_consumer_is_no_setting_of_a_consumer() -> None:
    with pytest.raises(monedula.ConfigError, match=r"^acknowledge is no setting, .*: ShareConsumer\(settings, ackn"):
        monedula.Consumer(SERVERS, acknowledge="explicit")


@pytest.mark.parametrize("name", ["value", "key", "columns", "headers"])
def test_an_argument_among_the_settings_is_called_one(name: str) -> None:
    with pytest.raises(
        monedula.ConfigError, match=f"{name} is no setting, but an argument.*Consumer.settings, {name}="
    ):
        monedula.Consumer({**SERVERS, name: "id bigint"})


def test_the_value_of_such_a_setting_is_not_shown() -> None:
    with pytest.raises(monedula.ConfigError, match=r"here: sasl.password") as caught:
        monedula.Consumer(bootstrap_servers="127.0.0.1:1", sasl_plain_password="the secret")
    assert "the secret" not in str(caught.value)


def test_topics_in_place_of_settings_are_named() -> None:
    with pytest.raises(monedula.ConfigError, match=r"topics go into topics="):
        monedula.Consumer("orders", bootstrap_servers="127.0.0.1:1")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (monedula.Producer, r"\{'bootstrap.servers': .*, not of type str; the topic of a record goes into send\("),
        (monedula.Admin, r"\{'bootstrap.servers': .*, not of type str; topics go into its methods$"),
        (monedula.SchemaRegistry, r"\{'schema.registry.url': 'http://localhost:8081'\}, not of type str$"),
        (lambda text: monedula.read(text, SERVERS), r"the topics come second, as in read\(settings, 'orders'\)$"),
    ],
)
def test_a_text_in_place_of_settings_is_told_what_the_client_wants(make: Any, says: str) -> None:
    with pytest.raises(monedula.ConfigError, match=says):
        make("http://x")


def test_one_column_as_a_text_is_told_to_stand_in_a_list() -> None:
    for columns in ("value", "key"):
        with pytest.raises(monedula.ArgumentError, match=rf"one column is columns=\['{columns}'\]"):
            monedula.Consumer(SERVERS, columns=columns)
