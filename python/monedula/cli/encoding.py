"""`monedula produce --encode`: how keys and values are written as JSON, Avro or Protobuf."""

from typing import NamedTuple

from monedula.cli.decoding import FORMATS, Decode, source_of
from monedula.cli.failures import UsageError, require
from monedula.cli.wording import CommandWording
from monedula.errors import ArgumentError
from monedula.formats._typed import Typed

Encode = Decode


class Options(NamedTuple):
    """Options about keys, or about values."""

    column: str
    """`key` or `value`."""
    encode: Encode | None
    schema: str | None
    message: str | None
    subject: str | None
    flatten: bool = False

    def named(self, option: str) -> str:
        """An option as it is for this column: `--key-schema`, and `--schema` for values."""
        return f"--key-{option}" if self.column == "key" else f"--{option}"


class Where(NamedTuple):
    """Circumstances of an encoding."""

    topic: str | None
    has_registry: bool
    is_table: bool


def encoder(given: Options, where: Where) -> Typed | None:
    """The form of keys or values; `None` for bytes."""
    named, encode = given.named, given.encode
    if encode is None:
        if any(each is not None for each in (given.schema, given.message, given.subject)) or given.flatten:
            flatten = "" if given.column == "key" else " and --flatten"
            raise UsageError(
                f"{named('schema')}, {named('message')}, {named('subject')}{flatten} say how {given.column}s are "
                f"written; add {named('encode')} json, avro or protobuf"
            )
        return None
    if encode is not Encode.protobuf and given.message is not None:
        raise UsageError(f"{named('message')} is for {named('encode')} protobuf")
    if given.flatten and not where.is_table:
        raise UsageError("--flatten makes values of the columns of Arrow and Parquet; a line is a value already")
    require("pyarrow", "arrow", named("encode"))
    try:
        return _written(given, encode, where)
    except ArgumentError as error:
        told = CommandWording(given.column).told(error)
        raise UsageError(told if error.argument is not None else f"{named('schema')}: {told}") from None


def _written(given: Options, encode: Encode, where: Where) -> Typed:
    schema, flatten = given.schema, given.flatten
    _check_source(given, where)
    subject = given.subject
    if schema is None and subject is None and (where.has_registry or encode is not Encode.json):
        subject = f"{where.topic}-{given.column}"
    source = None if schema is None else source_of(encode, schema, given.named("schema"))
    message = {"message": given.message} if encode is Encode.protobuf else {}
    return FORMATS[encode](source, subject=subject, flatten=flatten, **message)


def _check_source(given: Options, where: Where) -> None:
    named, encode = given.named, given.encode
    if given.subject is not None and not where.has_registry:
        raise UsageError(f"{named('subject')} is that of a registry: give -X schema.registry.url=http://...")
    if given.schema is not None or given.subject is not None:
        return
    if not where.has_registry:
        if encode is Encode.json and where.is_table:
            return
        if encode is Encode.json:
            raise UsageError(
                f"{named('encode')} json needs the fields, which lines are checked against: {named('schema')} "
                "'id bigint, user string'. Without it, lines are sent as they are"
            )
        file = "order.avsc" if encode is Encode.avro else "order.proto"
        raise UsageError(
            f"{named('encode')} {encode} needs a schema: {named('schema')} {file}, or a registry, "
            f"-X schema.registry.url=http://..., which is asked for that of {named('subject')}, or "
            "of the topic's subject"
        )
    if where.topic is None:
        raise UsageError(f"{named('encode')} {encode} without a topic needs {named('schema')} or {named('subject')}")
