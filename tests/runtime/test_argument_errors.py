"""`ArgumentError` by its attributes, of which the message is made, and what the command line and Spark make of them."""

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import monedula
import pyarrow as pa
import pytest
from monedula import ArgumentError, Avro, Json, Protobuf
from monedula.cli.wording import CommandWording
from monedula.errors import CorruptRecordError, DecodeError, LogTruncatedError
from monedula.formats._typed import check_columns
from monedula.spark.options.wording import OptionWording
from monedula.testing import Broker

IMPORTS = 'syntax = "proto3"; message A { common.B b = 1; }'
NODE = '{"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}'


def raised(call: Callable[[], object]) -> ArgumentError:
    with pytest.raises(ArgumentError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize(
    ("call", "attributes", "message"),
    [
        (
            lambda: Json("id bigint", mode="skip"),  # type: ignore[arg-type]
            ("mode", "'skip'", "expected 'fail', 'null' or 'drop'", None, None),
            "mode='skip': expected 'fail', 'null' or 'drop'",
        ),
        (
            lambda: Avro("order.avsc"),
            (
                "schema",
                None,
                "is not JSON, as Avro schemas are, but 'order.avsc'",
                "that of a file is Path(...).read_text()",
                None,
            ),
            "schema: is not JSON, as Avro schemas are, but 'order.avsc'; that of a file is Path(...).read_text()",
        ),
        (
            lambda: Avro(subject="a", writer='"long"', framing="confluent"),
            ("writer", None, "a registry has the schemas that values of a subject were written with", None, None),
            "writer: a registry has the schemas that values of a subject were written with",
        ),
        (
            lambda: Avro('"long"', schemas={7: "{"}, framing="confluent"),
            ("schemas[7]", None, None, None, None),
            None,
        ),
        (
            lambda: Json("id bigint", options={"timeZone": "nowhere"}),
            ("options", None, None, None, "timeZone"),
            None,
        ),
        (
            lambda: Protobuf("message A {} message B {}"),
            ("schema", None, "there are several messages", "give message=, one of A, B", None),
            "schema: there are several messages; give message=, one of A, B",
        ),
        (
            lambda: Avro(NODE),
            (
                "schema",
                None,
                None,
                "the option recursiveFieldMaxDepth (1 to 15) says how deep columns go",
                None,
            ),
            None,
        ),
        (
            lambda: Json("id bigint").spec.encode(pa.table({"value": [1]})),
            (None, None, None, "With flatten=True, the columns of the table are its fields", None),
            None,
        ),
    ],
)
def test_an_error_has_the_facts_as_attributes(
    call: Callable[[], object], attributes: tuple[str | None, ...], message: str | None
) -> None:
    error = raised(call)
    made = pickle.loads(pickle.dumps(error))
    argument, value, reason, hint, option = attributes
    for each in (error, made):
        assert (each.argument, each.value, each.hint, each.key) == (argument, value, hint, option)
        assert reason in (None, each.reason)
        assert message in (None, str(each))
        assert each.reason in str(each)
        assert str(each).endswith(each.hint or each.reason)
        assert "`" not in str(each)
    assert (CommandWording().told(made), OptionWording("key").told(made)) == (
        CommandWording().told(error),
        OptionWording("key").told(error),
    )


def test_a_row_that_cannot_be_sent_is_an_attribute() -> None:
    form = Avro('{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}')
    error = raised(lambda: form.spec.encode(pa.table({"id": [1, None]})))
    assert (error.row, error.argument, error.hint) == (1, None, "no row was sent")
    assert str(error) == f"row 1: {error.reason}; no row was sent"
    assert CommandWording().reason(error) == error.reason
    assert OptionWording("value").told(error) == f"row 1: {error.reason}"


@pytest.mark.parametrize(
    ("call", "of_command", "of_option"),
    [
        (
            lambda: Protobuf("message A {} message B {}"),
            "--key-schema: there are several messages; give --key-message, one of A, B",
            "key.schema: there are several messages; give key.message, one of A, B",
        ),
        (
            lambda: Protobuf(IMPORTS),
            "protoc --include_imports --descriptor_set_out=order.pb",
            "give descriptors with the files that are imported: protoc",
        ),
        (
            lambda: Protobuf(b"message A {}"),
            "the name of a file with a text, and not descriptors, ends in .proto",
            "give it as str",
        ),
        (
            lambda: Avro(framing="glue"),
            "--framing glue: AWS Glue's own API is not asked; give --schemas, as the console",
            "key.framing='glue': AWS Glue's own API is not asked; give key.schemas={UUID of a version: schema}, as",
        ),
        (lambda: Avro(NODE), "the option recursiveFieldMaxDepth (1 to 15)", "the option key.recursiveFieldMaxDepth"),
        (lambda: Avro("x.avsc"), "but 'x.avsc'; nor is there a file of that name", "; give the text of the file"),
        (
            lambda: monedula.SchemaRegistry({"bootstrap.servers": "x:1"}),
            "the settings name no registry; give -X schema.registry.url",
            "the settings name no registry; give kafka.schema.registry.url",
        ),
    ],
)
def test_the_command_line_and_spark_say_it_in_their_words(
    call: Callable[[], object], of_command: str, of_option: str
) -> None:
    error = raised(call)
    assert of_command in CommandWording("key").told(error)
    assert of_option in OptionWording("key").told(error)


def test_fields_among_kafkas_columns_are_told_with_the_way_to_have_them() -> None:
    given = Json("id bigint")
    error = raised(lambda: check_columns(["id"], None, given))
    assert error.argument == "columns"
    assert "Give columns=['value', ...], and value= a schema of the fields" in str(error)
    assert "Give --columns value, and --schema a schema of the fields" in CommandWording().told(error)


NEXT: dict[str, Any] = {"topic": "t", "partition": 0, "offset": 7, "next_offset": 8}


@pytest.mark.parametrize(
    ("error", "of_command"),
    [
        (
            DecodeError(
                "t-0: no. A read that starts at 8 goes on behind it",
                hint="`A read that starts at {next_offset} goes on behind it`",
                **NEXT,
            ),
            "t-0: no. consume t -p 0 --from 8 goes on behind it",
        ),
        (
            DecodeError(
                "t-0: no; give framing='bare'. Seek past it to go on",
                hint="give `framing='bare'`. `Seek past it to go on`",
                **NEXT,
            ),
            "t-0: no; give --framing bare",
        ),
        (
            DecodeError(
                'the value is no JSON. With mode="null" such records are kept with nulls, with mode="drop" left out. '
                "A read that starts at 8 goes on behind it",
                hint='`With mode="null" such records are kept with nulls, with mode="drop" left out. `'
                "`A read that starts at {next_offset} goes on behind it`",
                **NEXT,
            ),
            "the value is no JSON. consume t -p 0 --from 8 goes on behind it",
        ),
        (
            DecodeError(
                "t-0: no; give framing='bare'. With mode=\"null\" such records are kept with nulls, with "
                'mode="drop" left out, with dead_letter= written to a topic. Seek past it to go on',
                hint="give `framing='bare'`. "
                '`With mode="null" such records are kept with nulls, with mode="drop" left out, with dead_letter= '
                "written to a topic. ``Seek past it to go on`",
                **NEXT,
            ),
            "t-0: no; give --framing bare",
        ),
        (CorruptRecordError("t-0: no. Seek past it to go on", hint="`Seek past it to go on`"), "t-0: no"),
        (
            LogTruncatedError(
                "t-0: gone. Seek to 5 to read what stands there now",
                hint="`Seek to` 5 `to read what` stands there now",
                topic="t",
                partition=0,
            ),
            "t-0: gone. consume t -p 0 --from 5 reads what stands there now",
        ),
    ],
)
def test_ways_to_go_on_are_those_of_the_front_end(error: monedula.KafkaError, of_command: str) -> None:
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert each.hint is not None
        assert str(each).endswith(each.hint)
        assert CommandWording().told(each) == of_command
    assert "A read" not in OptionWording("value").told(error)
    if "dead_letter" not in str(error):  # tasks of Spark read, and do not consume
        assert "With mode" not in OptionWording("value").told(error)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}, registry=True) as broker:
        yield broker


HALF = "\ud800"
"""Half of a surrogate pair, as the name of a file that is no text has."""


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("columns", lambda settings: monedula.read(settings, "orders", columns=[HALF])),
        ("columns", lambda settings: monedula.Consumer(settings, columns=[HALF])),
        ("pattern", lambda settings: monedula.Consumer(settings).subscribe(pattern=HALF)),
        ("exclude", lambda settings: monedula.Consumer(settings).subscribe(pattern="a", exclude=HALF)),
        ("server_pattern", lambda settings: monedula.Consumer(settings).subscribe(server_pattern=HALF)),
        ("metadata", lambda settings: monedula.Consumer(settings).commit({("orders", 0): (0, HALF)})),
        ("metadata", lambda settings: monedula.Consumer(settings).commit_async({("orders", 0): (0, HALF)})),
        ("reason", lambda settings: monedula.Consumer(settings).enforce_rebalance(HALF)),
        ("assignors", lambda settings: monedula.Consumer(settings, assignors=[HALF])),
        ("subject", lambda _: Avro(subject=HALF)),
        ("message", lambda _: Protobuf('syntax = "proto3"; message A { int32 a = 1; }', message=HALF)),
        ("topic", lambda settings: monedula.Producer(of(settings)).send_batch(pa.table({"value": ["a"]}), HALF)),
        ("topic", lambda settings: monedula.Producer(of(settings)).partitions_for(HALF)),
        (
            "retention.ms",
            lambda settings: monedula.Admin(of(settings)).alter_configs({"orders": {"retention.ms": HALF}}),
        ),
        (
            "retention.ms",
            lambda settings: monedula.Admin(of(settings)).create_topics("new", configs={"retention.ms": HALF}),
        ),
        (
            "metadata",
            lambda settings: monedula.Admin(of(settings)).alter_group_offsets("g", {("orders", 0): (0, HALF)}),
        ),
    ],
)
def test_a_text_that_cannot_be_encoded_is_an_argument_error(
    broker: Broker, argument: str, call: Callable[[dict[str, str]], object]
) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}
    found = raised(lambda: call(settings))
    assert (found.argument, found.reason) == (argument, "it cannot be written as UTF-8")
    assert str(found).isascii()


def test_a_setting_whose_name_cannot_be_encoded_is_named(broker: Broker) -> None:
    with pytest.raises(monedula.ConfigError, match=r"'\\ud800' is no setting"):
        monedula.Consumer({"bootstrap.servers": broker.bootstrap_servers, HALF: "1"})


def of(settings: dict[str, str]) -> dict[str, str]:
    return {"bootstrap.servers": settings["bootstrap.servers"]}


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("dry_run", lambda admin, no: admin.reset_group_offsets("g", "earliest", dry_run=no)),
        ("validate_only", lambda admin, no: admin.create_topics("new", validate_only=no)),
        ("exist_ok", lambda admin, no: admin.create_topics("new", exist_ok=no)),
        ("missing_ok", lambda admin, no: admin.delete_topics("orders", missing_ok=no)),
        ("internal", lambda admin, no: admin.list_topics(internal=no)),
        ("validate_only", lambda admin, no: admin.create_partitions({"orders": 2}, validate_only=no)),
        ("validate_only", lambda admin, no: admin.alter_configs({"orders": {"retention.ms": 1}}, validate_only=no)),
        ("documentation", lambda admin, no: admin.describe_configs("orders", documentation=no)),
        ("unclean", lambda admin, no: admin.elect_leaders(unclean=no)),
        ("strict", lambda admin, no: admin.describe_client_quotas(strict=no)),
        ("validate_only", lambda admin, no: admin.alter_client_quotas({}, validate_only=no)),
    ],
)
@pytest.mark.parametrize("no_truth", [1, "false", None])
def test_an_option_of_an_admin_that_is_not_true_or_false_is_refused(
    broker: Broker, argument: str, call: Callable[[Any, object], object], no_truth: object
) -> None:
    with monedula.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        found = raised(lambda: call(admin, no_truth))
        assert (found.argument, found.reason) == (argument, "expected True or False")
        assert set(admin.list_topics()) == {"orders"}


def test_a_commit_names_the_timeout_that_was_given() -> None:
    with Broker(topics={"orders": 1}) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}
        with monedula.Consumer(settings) as consumer:
            consumer.assign([("orders", 0)])
            consumer.commit({("orders", 0): 0})
            broker.stop()
            with pytest.raises(monedula.KafkaTimeoutError, match="within 1000 ms"):
                consumer.commit({("orders", 0): 0}, timeout=1)
