import pickle
import re
from typing import Any

import monedula
import pytest

SERVERS = "localhost:9092"
KINDS = [monedula.Consumer, monedula.AsyncConsumer]
Kind = type[monedula.Consumer] | type[monedula.AsyncConsumer]


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_key_names_the_nearest(kind: Kind) -> None:
    with pytest.raises(monedula.ConfigError, match=re.escape("did you mean auto.offset.reset?")) as caught:
        kind({"bootstrap.servers": SERVERS, "auto.ofset.reset": "earliest"})
    assert caught.value.key == "auto.ofset.reset"


def test_dotted_and_underscored_names_mean_the_same() -> None:
    with monedula.Consumer({"bootstrap.servers": SERVERS}, fetch_max_wait_ms=100):
        pass
    with pytest.raises(monedula.ConfigError, match="same setting"):
        monedula.Consumer({"bootstrap.servers": SERVERS}, bootstrap_servers=SERVERS)


def test_bootstrap_servers_may_be_a_list() -> None:
    monedula.Consumer(bootstrap_servers=["localhost:1", "localhost:2"]).close()


@pytest.mark.parametrize("value", [None, object(), 1.5, b"earliest", [1], {"a": 1}])
def test_a_value_of_a_type_that_no_setting_has_is_refused(value: object) -> None:
    with pytest.raises(monedula.ConfigError, match=r"auto\.offset\.reset: expected a text") as caught:
        monedula.Consumer({"bootstrap.servers": SERVERS, "auto.offset.reset": value})
    assert caught.value.key == "auto.offset.reset"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"fetch.min.bytes": "many"}, "a whole number from 1 to"),
        ({"fetch.min.bytes": -1}, "a whole number from 1 to"),
        ({"check.crcs": "maybe"}, "true or false"),
        ({"check.crcs": 2}, "true or false"),
        ({"isolation.level": "serializable"}, "one of read_uncommitted, read_committed"),
        ({"request.timeout.ms": 400, "fetch.max.wait.ms": 500}, "must exceed"),
    ],
)
def test_a_value_that_does_not_do_is_refused_with_what_would(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(monedula.ConfigError, match=reason):
        monedula.Consumer({"bootstrap.servers": SERVERS, **settings})


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"security.protocol": "TLS"}, "SASL_SSL"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "sasl.mechanism is missing"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "sasl.username is missing"),
        ({"bootstrap.servers": "SSL://localhost:9092"}, "security.protocol=PLAINTEXT"),
    ],
)
def test_security_is_refused_never_left_out(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(monedula.ConfigError, match=reason):
        monedula.Consumer({"bootstrap.servers": SERVERS, **settings})


def test_every_listed_setting_is_taken_with_its_default() -> None:
    keys = monedula.config_keys()
    assert len({key.name for key in keys}) == len(keys) > 20
    defaults = {key.name: key.default for key in keys if key.default is not None}
    monedula.Consumer({"bootstrap.servers": SERVERS, **defaults}).close()


def test_a_listed_setting_says_whose_it_is() -> None:
    roles = {key.name: key.role for key in monedula.config_keys()}
    assert (roles["client.id"], roles["group.id"], roles["linger.ms"]) == ("all", "consumer", "producer")
    assert roles["schema.registry.url"] == "consumer and producer"
    assert set(roles.values()) <= {"all", "consumer", "producer", "admin", "consumer and producer", "share consumer"}


def test_every_listed_alias_is_taken() -> None:
    for key in monedula.config_keys():
        for alias in key.aliases:
            servers = {} if key.name == "bootstrap.servers" else {"bootstrap.servers": SERVERS}
            number = "20000" if (key.default or "").isdigit() else None
            choice = key.values.split(", ")[-1] if ", " in key.values else None
            # Who asks a registry goes with other settings of it.
            is_of_registry = key.name.startswith("schema.registry.")
            value = "" if is_of_registry else number or key.default or choice or SERVERS
            value = f"socks5h://{SERVERS}" if key.name == "proxy.url" else value
            monedula.Consumer({**servers, alias: value}).close()


def test_an_unknown_column_names_the_nearest() -> None:
    with pytest.raises(monedula.ArgumentError, match=r'"vlaue"; did you mean "value"\?'):
        monedula.Consumer(bootstrap_servers=SERVERS, columns=["vlaue"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_for_the_settings_shows_how_to_write_them(kind: Kind) -> None:
    with pytest.raises(monedula.ConfigError, match=r"\{'bootstrap.servers': 'localhost:9092'\}, not of type str"):
        kind("kafka:9092")  # type: ignore[arg-type]


def test_a_list_for_the_settings_shows_how_to_write_them() -> None:
    with pytest.raises(monedula.ConfigError, match=r"settings must be a dict such as \{'bootstrap.servers'"):
        monedula.Consumer(["kafka:9092"])  # type: ignore[arg-type]


def test_a_missing_bootstrap_is_named() -> None:
    with pytest.raises(monedula.ConfigError, match=r"bootstrap\.servers is missing: host:port") as caught:
        monedula.Consumer()
    assert caught.value.key == "bootstrap.servers"


def test_errors_are_also_what_python_calls_them() -> None:
    assert issubclass(monedula.ConfigError, ValueError)
    assert issubclass(monedula.ArgumentError, ValueError)
    assert issubclass(monedula.KafkaTimeoutError, TimeoutError)
    assert issubclass(monedula.errors.BrokerConnectionError, ConnectionError)
    assert issubclass(monedula.UnknownTopicError, LookupError)


@pytest.mark.parametrize(
    "kind", [monedula.UnknownTopicError, monedula.errors.BrokerConnectionError, monedula.KafkaTimeoutError]
)
def test_an_error_keeps_its_message_and_attributes_through_pickle(kind: type[monedula.KafkaError]) -> None:
    error = kind("gone", code="CODE", topic="t", partition=3, retriable=True)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (str(copy), copy.code, copy.topic, copy.partition, copy.retriable) == ("gone", "CODE", "t", 3, True)


@pytest.mark.req("S107")
@pytest.mark.parametrize(
    ("role", "settings", "words"),
    [
        ("consumer", {"fetch.max.wait.ms": 0}, ["fetch.max.wait.ms=0"]),
        ("consumer", {"fetch.min.bytes": 1 << 20}, ["fetch.min.bytes=1048576", "500 ms"]),
        ("consumer", {"fetch.min.bytes": 5000, "fetch.max.bytes": 4000}, ["fetch.min.bytes=5000", "4000"]),
        ("member", {"heartbeat.interval.ms": 3000, "session.timeout.ms": 8000}, ["3000 ms", "a third", "8000 ms"]),
        ("member", {"heartbeat.interval.ms": 500, "session.timeout.ms": 2000}, ["2000 ms", "below 6000 ms"]),
        ("member", {"max.moves.per.round": 5}, ["max.moves.per.round", "incremental"]),
        ("producer", {"enable.idempotence": False}, ["max.in.flight.requests.per.connection=5", "without idempotence"]),
        ("producer", {"group.id": "etl"}, ["group.id", "consumer"]),
        ("consumer", {"linger.ms": 5}, ["linger.ms", "producer"]),
    ],
)
def test_doubtful_settings_are_warned_of_with_their_numbers(
    role: str, settings: dict[str, object], words: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    given = {"bootstrap.servers": SERVERS, **settings}
    with caplog.at_level("WARNING", "monedula"):
        match role:
            case "producer":
                monedula.Producer(given).close()
            case "member":
                monedula.Consumer({**given, "group.id": "etl"}, "orders").close(0)
            case _:
                monedula.Consumer(given).close()
    warnings = [record.getMessage() for record in caplog.records]
    assert any(all(word in warning for word in words) for warning in warnings), warnings


def test_settings_that_make_sense_are_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", "monedula"):
        monedula.Consumer({"bootstrap.servers": SERVERS}).close()
        monedula.Producer({"bootstrap.servers": SERVERS}).close()
    assert caplog.records == []
