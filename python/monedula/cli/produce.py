"""`monedula produce`: sends lines, JSON, Arrow or Parquet to topics."""

import os
from collections.abc import Iterator
from io import BufferedReader
from typing import Any

from monedula.cli import produce_options, sources
from monedula.cli.batches import Tables, TypedLines
from monedula.cli.encoding import Options, Where, encoder
from monedula.cli.failures import Failure, UsageError
from monedula.cli.placing import Placing
from monedula.cli.positions import partitions_of
from monedula.cli.progress import Bar
from monedula.cli.records import Common, Lines
from monedula.cli.running import command, say
from monedula.cli.settings import (
    BootstrapServers,
    Setting,
    SettingsFile,
    admin_settings,
    names_registry,
    overruled,
    pair,
    settings_of,
)
from monedula.cli.topic_names import check_name
from monedula.cli.wording import CommandWording
from monedula.errors import ArgumentError, SchemaRegistryError
from monedula.formats._typed import Typed
from monedula.producer.sync import Producer


@command("produce")
def produce(
    topic: produce_options.Topic = None,
    bootstrap_servers: BootstrapServers = None,
    file: produce_options.File = None,
    format_: produce_options.FormatName = None,
    partition: produce_options.Partition = None,
    any_partition: produce_options.AnyPartition = False,
    key: produce_options.Key = None,
    key_separator: produce_options.KeySeparator = None,
    null: produce_options.Null = None,
    header: produce_options.Header = None,
    key_column: produce_options.KeyColumn = None,
    value_column: produce_options.ValueColumn = None,
    encode: produce_options.Encoding = None,
    schema: produce_options.Schema = None,
    message: produce_options.Message = None,
    subject: produce_options.Subject = None,
    flatten: produce_options.Flatten = False,
    key_encode: produce_options.KeyEncoding = None,
    key_schema: produce_options.KeySchema = None,
    key_message: produce_options.KeyMessage = None,
    key_subject: produce_options.KeySubject = None,
    compression: produce_options.Compression = None,
    setting: Setting = None,
    settings_file: SettingsFile = None,
) -> None:
    r"""Send lines, JSON, Arrow or Parquet to topics.

    From standard input or a file; a line is a record, unless an option says otherwise. JSON lines are what
    monedula consume --format json writes: objects with value, key, headers, and so on. Lines that are JSON
    and simply the values need no format. With --encode, the JSON or the columns are written as Avro, Protobuf or JSON.

    Examples:
        echo hello | monedula produce orders
        seq 1000 | monedula produce orders --header source=seq -z lz4
        printf 'a:1\nb:2\n' | monedula produce orders --key-separator :
        monedula consume orders -f json --headers | monedula produce orders -f json
        monedula consume orders -o orders.parquet && monedula produce orders -i orders.parquet
        echo '{"id":7}' | monedula produce orders --encode avro --schema order.avsc
        echo '{"id":7}' | monedula produce orders --encode avro -F registry.properties
    """
    kind = sources.input_of(format_, file)
    _check_options(kind, topic, key, key_separator, null, header, key_column, value_column)
    fixed = partitions_of([partition] if partition else None)
    if len(fixed) > 1:
        raise UsageError(f"--partition {partition}: a record goes to one partition")
    settings = settings_of(bootstrap_servers, setting, settings_file)
    if compression is not None:
        settings = overruled(settings, {"compression.type": compression})
    tabular = kind in (sources.Input.arrow, sources.Input.parquet)
    is_typed = encode is not None or key_encode is not None
    where = Where(topic, names_registry(settings, is_typed), tabular)
    told = (
        Options("key", key_encode, key_schema, key_message, key_subject),
        Options("value", encode, schema, message, subject, flatten),
    )
    forms = {each.column: form for each in told if (form := encoder(each, where)) is not None}
    pairs = [pair(text, "--header") for text in header or ()]
    key_of_all = _key(key, "key" in forms)
    headers: sources.Headers = [(name, value.encode()) for name, value in pairs]
    with sources.opened(file) as stream:
        rows, batches = sources.tables(stream, file, kind) if tabular else (None, iter(()))
        size = rows if tabular or file is None else os.fstat(stream.fileno()).st_size
        if file is None and stream.isatty():
            say("one record a line; Ctrl-D ends")
        with Producer(settings) as producer, Bar("sending", size, wanted=file is not None) as bar:
            _reach(settings)
            placing = Placing(producer)
            common = Common(topic, fixed[0] if fixed else None, any_partition, key_of_all, headers, placing)
            forms = {name: _pinned(producer, name, form) for name, form in forms.items()}
            if tabular:
                shaped = (_shaped(batch, key_column, value_column, forms.get("value")) for batch in batches)
                Tables(producer, bar, forms, topic, fixed, any_partition, placing).send(shaped)
            elif forms:
                TypedLines(producer, bar, forms, common).send(_typed(stream, kind, key_separator, null, forms))
            else:
                lines = (
                    sources.json_lines(stream)
                    if kind is sources.Input.json
                    else sources.text_lines(stream, key_separator, null)
                )
                Lines(producer, bar, common).send(lines)


def _key(key: str | None, is_typed: bool) -> Any:
    if key is None or not is_typed:
        return None if key is None else key.encode()
    try:
        return sources.json_of(key)
    except ValueError as error:
        raise UsageError(f"--key {key}: {error}; --key-encode makes the key of JSON") from None


def _pinned(producer: Producer, name: str, form: Typed) -> Typed:
    """The form of keys or values, with the schema of their subject if none is given."""
    try:
        pinned = producer._of_subject(form, name, None)  # the command names the subject
    except ArgumentError as error:
        raise Failure(f"the schema of subject {form.subject}: {CommandWording(name).reason(error)}") from None
    except SchemaRegistryError as error:
        is_absent = "answered 404: 40401 " in str(error)
        schema = "--schema" if name == "value" else "--key-schema"
        raise Failure(f"{error}{f' With {schema} one is registered' if is_absent else ''}") from None
    assert pinned is not None
    return pinned


def _shaped(batch: Any, key_column: str | None, value_column: str | None, form: Typed | None) -> Any:
    """The columns of a table that are sent; in a format, values may be made of all those that are not Kafka's."""
    has_values = value_column is not None or "value" in batch.schema.names
    if form is None or (has_values and not form.flatten):
        return sources.named(batch, key_column, value_column)
    fields = set(form.field_names())
    return sources.with_fields(batch, key_column, fields or None)


def _typed(
    stream: BufferedReader, kind: sources.Input, separator: str | None, null: str | None, typed: dict[str, Typed]
) -> Iterator[Iterator[sources.Line]]:
    """The records of lines with JSON, each time those that are there."""
    first = 1
    for lines in sources.arrivals(stream):
        if kind is sources.Input.json:
            yield sources.json_lines(lines, first, typed)
        else:
            yield sources.text_lines(lines, separator, null, first, typed)
        first += len(lines)


def _reach(settings: dict[str, str]) -> None:
    """Connect to the cluster first, so that a wrong address is reported before `delivery.timeout.ms` (2 minutes)."""
    from monedula.admin import Admin

    with Admin(admin_settings(settings)) as admin:
        admin.describe_cluster()


def _check_options(
    kind: sources.Input,
    topic: str | None,
    key: str | None,
    key_separator: str | None,
    null: str | None,
    header: list[str] | None,
    key_column: str | None,
    value_column: str | None,
) -> None:
    tabular = kind in (sources.Input.arrow, sources.Input.parquet)
    if kind is sources.Input.lines and topic is None:
        raise UsageError("where to? Give a topic: monedula produce orders")
    if topic is not None:
        check_name(topic, "; several topics stand in the data, in a field topic")
    if kind is not sources.Input.lines and (key_separator is not None or null is not None):
        raise UsageError("--key-separator and --null are for --format lines")
    if not tabular and (key_column or value_column):
        raise UsageError("--key-column and --value-column are for Arrow and Parquet")
    if tabular and (key is not None or header):
        raise UsageError("--key and --header are for lines and JSON; a table has them in its columns")
    if key_separator == "":
        raise UsageError("--key-separator is empty")
