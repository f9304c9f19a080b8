"""`Typed`, the base of `Json`, `Avro` and `Protobuf`, and their common checks of arguments."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Literal, Self, get_args

from monedula._arguments import as_text, topic_names, truth
from monedula._config.texts import dotted
from monedula._monedula import ColumnSpec, RegistryCore
from monedula.config import RawSettings
from monedula.errors import ArgumentError

Mode = Literal["fail", "null", "drop"]

RegistryFraming = Literal["bare", "confluent", "apicurio", "glue"]

_BOOTSTRAP = ("bootstrap.servers", "metadata.broker.list")

NO_REGISTRY = "give `the setting schema.registry.url`"

KAFKA_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
"""The columns of batches in their order, if no field is a column of its own."""

_MODES_OF_SPARK = {"PERMISSIVE": "null", "DROPMALFORMED": "drop", "FAILFAST": "fail"}


class Typed:
    """Decoding of keys or values: the base of `Json`, `Avro` and `Protobuf`."""

    _DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "framing": None,
        "mode": "fail",
        "dead_letter": None,
        "flatten": False,
        "options": {},
        "subject": None,
        "version": None,
        "references": (),
        "fields": (),
        "id_in_header": False,
    }
    """Arguments that `repr` shows, with their defaults."""

    _KIND: ClassVar[str] = ""
    """Name of the schema language in registries."""

    _given: Any
    _arguments: dict[str, Any]
    _is_of_registry = False
    spec: ColumnSpec

    @property
    def flatten(self) -> bool:
        """True if the fields are columns of their own."""
        flatten: bool = self._arguments["flatten"]
        return flatten

    @property
    def drops(self) -> bool:
        """True if records that cannot be decoded are left out."""
        return bool(self._arguments["mode"] == "drop")

    @property
    def subject(self) -> str | None:
        """Subject in a registry, or `None`."""
        subject: str | None = self._arguments["subject"]
        return subject

    @property
    def dead_letter(self) -> str | None:
        """Topic for records that cannot be decoded, or `None`."""
        topic: str | None = self._arguments["dead_letter"]
        return topic

    @property
    def identity(self) -> str:
        """Text that is equal only for objects with equal arguments; `repr` does not show all of them."""
        return f"{type(self).__name__}({self._given!r}, {self._arguments!r})"

    @property
    def is_of_registry(self) -> bool:
        """True if the reader's schema has yet to be requested from the registry."""
        return self._is_of_registry

    @property
    def is_of_topics_subject(self) -> bool:
        """True if the reader's schema is that of the topic's subject, as neither a schema nor a subject was given."""
        return self._is_of_registry and self.subject is None

    def field_names(self) -> list[str]:
        """Return the names of the fields, none if keys or values are no structs."""
        return self.spec.field_names

    def of_topic(self, column: str, topics: object, registry: RegistryCore | None = None) -> Self:
        """Return a copy whose subject is the topic's, if neither a schema nor a subject was given.

        Args:
            column: `"key"` or `"value"`.
            topics: what is read or written, as the caller has it.
            registry: asked for the associated subject, if the settings say so.

        Raises:
            ArgumentError: if that is not the name of one topic.
            SchemaRegistryError: if the registry cannot be asked.
        """
        if not self.is_of_topics_subject:
            return self
        names: Collection[object] = [topics] if isinstance(topics, str) else ()
        if isinstance(topics, Collection) and not names:
            names = topics
        topic = next(iter(names), None)
        if len(names) != 1 or not isinstance(topic, str):
            raise ArgumentError(
                f"{type(self).__name__}() without a schema has that of the topic's subject, and no one topic is named "
                "here",
                argument=column,
                hint="name one topic, or give the schema or subject=",
            )
        subject = None if registry is None else registry.associated(column, topic)
        return type(self)(**{**self._arguments, "subject": subject or f"{topic}-{column}"})

    def pinned(self, settings: RawSettings) -> Self:
        """Return a copy with the schema of its subject, requested from the registry of the settings; waits for it.

        Raises:
            ArgumentError: if the settings name no registry, or the schema cannot be read.
            SchemaRegistryError: if the registry does not have it, or the request fails.
        """
        if not self._is_of_registry:
            return self
        subject, version = self._arguments["subject"], self._arguments["version"]
        _, _, text, references = registry_core(settings).version(subject, version, self._KIND)
        return self._with_schema(text, references)

    def of_subject(self, registry: RegistryCore | None) -> Self:
        """Return a copy for writing: with the schema of its subject in this `registry`, and the schema's id.

        Raises:
            ArgumentError: if there is no registry, or the schema cannot be read.
            SchemaRegistryError: if the registry does not have it, or the request fails.
        """
        return self.of_version(*self.version_in(registry))

    def version_in(self, registry: RegistryCore | None) -> tuple[int, str, list[tuple[str, str]]]:
        """The version of its subject in this `registry`: the schema's id, its text, and its references.

        Raises:
            ArgumentError: if there is no registry.
            SchemaRegistryError: if the registry does not have it, or the request fails.
        """
        if registry is None:
            raise ArgumentError("the settings name no registry", hint=NO_REGISTRY)
        subject, version = self._arguments["subject"], self._arguments["version"]
        number, _, text, references = registry.version(subject, version, self._KIND)
        return number, text, references

    def of_version(self, number: int, text: str, references: list[tuple[str, str]]) -> Self:
        """Return a copy for writing with a schema of a registry.

        Args:
            number: its id there.
            text: its text.
            references: the names and texts of the schemas that it refers to.

        Raises:
            ArgumentError: if the schema cannot be read.
        """
        return self._with_schema(text, references, number)

    def of_id(self, number: int) -> Self:
        """Return a copy that writes its schema under the id `number`, without requests to the registry."""
        kind: type[Any] = type(self)
        made: Self = kind(self._given, **{**self._arguments, "version": None, "schemas": {number: self._given}})
        return made

    def changed(self, **arguments: Any) -> Self:
        """Return a copy with other arguments."""
        kind: type[Any] = type(self)
        made: Self = kind(self._given, **{**self._arguments, **arguments})
        return made

    def _with_schema(self, text: str, references: list[tuple[str, str]], number: int | None = None) -> Self:
        """Return a copy with a schema of a registry, the named schemas that it refers to, and, for writing, its id."""
        raise NotImplementedError

    def _written_in_header(self, spec: ColumnSpec) -> ColumnSpec:
        """The form in the core, for writing with the schema's GUID in a header if that was asked for."""
        return spec.with_id_in_header() if self._arguments["id_in_header"] else spec

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self._given, self._arguments)

    def __repr__(self) -> str:
        given = [
            f"{name}={value!r}" for name, value in self._arguments.items() if value != self._DEFAULTS.get(name, value)
        ]
        fields = [] if self._is_of_registry else self.spec.fields
        return f"{type(self).__name__}({', '.join([*fields, *given])})"


def _restored(kind: type[Any], given: Any, arguments: dict[str, Any]) -> Typed:
    restored: Typed = kind(given, **arguments)
    return restored


def behaviour_of(mode: object, dead_letter: str | None) -> str:
    """Combine `mode` and `dead_letter` to the core's treatment of records that cannot be decoded."""
    if mode not in ("fail", "null", "drop"):
        here = _MODES_OF_SPARK.get(str(mode).upper())
        also = "" if here is None else f"; Spark's {str(mode).upper()} is {here!r}"
        raise ArgumentError.of("mode", mode, f"expected 'fail', 'null' or 'drop'{also}")
    if dead_letter is None:
        return str(mode)
    if mode != "fail":
        raise ArgumentError("dead_letter says another thing about bad records; give one of them", argument="mode")
    topic_names([dead_letter], "dead_letter is the name of one topic")
    return "dead_letter"


def registry_core(settings: RawSettings) -> RegistryCore:
    """Make the client of the schema registry in the settings."""
    if not {name.replace("_", ".") for name, *_ in settings} & {*_BOOTSTRAP}:
        # Settings must name a broker, although none is contacted.
        given, settings = settings, RawSettings([*settings, (_BOOTSTRAP[0], "localhost:9092")])
        settings.token_source = given.token_source
    return RegistryCore(settings)


def pinned(settings: RawSettings, given: Typed | None, column: str, topics: object) -> Typed | None:
    """Return what decodes a column of these topics, with the schema of its subject if it has none of its own."""
    if not isinstance(given, Typed):
        return given
    has_registry = any(dotted(key) == "schema.registry.url" for key, _ in settings)
    asks = has_registry and given.is_of_topics_subject
    of_topic = given.of_topic(column, topics, registry_core(settings) if asks else None)
    if of_topic is not given and not has_registry:
        raise ArgumentError(
            f"{type(given).__name__}() without a schema has that of the topic's subject, and the settings name no "
            "registry",
            argument=column,
            hint="give the schema, or `the setting schema.registry.url`",
        )
    return of_topic.pinned(settings)


def is_of_topic(framing: object, *given: object) -> bool:
    """True if nothing was given that says what values are, so that the topic's subject does."""
    return framing in (None, "confluent", "apicurio") and all(each is None for each in given)


def check_framing(framing: object) -> None:
    """Refuse a framing that is not one of a registry's, for values of JSON and Protobuf."""
    if framing not in (None, *get_args(RegistryFraming)):
        raise ArgumentError.of("framing", framing, "expected 'bare', 'confluent', 'apicurio' or 'glue'")


def framing_of_subject(framing: object) -> Literal["confluent", "apicurio"]:
    """Return the framing of values if a subject has the reader's schema."""
    if framing in (None, "confluent"):
        return "confluent"
    if framing == "apicurio":
        return "apicurio"
    raise ArgumentError.of(
        "framing",
        framing,
        "values do not name their schema by an id that a registry knows",
        "subject is for `framing='confluent'` and `framing='apicurio'`",
    )


def check_id_in_header(id_in_header: object, framing: object) -> bool:
    is_in_header = truth("id_in_header", id_in_header)
    if is_in_header and framing not in (None, "confluent"):
        raise ArgumentError.of("framing", framing, "only ids of Confluent's framing are written to a header")
    return is_in_header


def check_subject(subject: object, version: object, schema: object) -> None:
    if not isinstance(subject, str) or not subject.strip():
        expected = "expected the name of a subject, such as 'orders-value'"
        if subject is None:
            raise ArgumentError(f"it is that of a subject: give subject=; {expected}", argument="version")
        raise ArgumentError.of("subject", subject, expected)
    as_text("subject", subject)
    if version is not None and (type(version) is not int or not 1 <= version < 1 << 31):
        raise ArgumentError.of("version", version, "expected the number of a version; the latest if it is left out")
    if version is not None and schema is not None:
        raise ArgumentError("schema says another thing about the reader's schema; give one of them", argument="version")


def schema_key(key: object, framing: object = "confluent") -> tuple[int, bytes | None]:
    if framing == "apicurio":
        if type(key) is int and 0 <= key < 1 << 63:
            return key, None
        raise ArgumentError(
            f"{key!r} is not the id of a schema in Apicurio's registry, a number of 63 bits", argument="schemas"
        )
    number, guid = _id_or_guid(key)
    if framing == "glue" and guid is None:
        raise ArgumentError(f"{key!r} is not the UUID of a schema's version in AWS Glue", argument="schemas")
    return number, guid


def _id_or_guid(key: object) -> tuple[int, bytes | None]:
    if type(key) is int and 0 <= key < 1 << 32:
        return key, None
    if isinstance(key, str) and "-" in key:
        from uuid import UUID

        with suppress(ValueError):
            return 0, UUID(key).bytes
    raise ArgumentError(f"{key!r} is neither the id of a schema, a number of 32 bits, nor a GUID", argument="schemas")


def option_texts(options: Mapping[str, str | bool | int] | None) -> dict[str, str]:
    return {
        name: str(value) if type(value) is int else option_text(name, value) for name, value in option_pairs(options)
    }


def option_pairs(options: Mapping[str, Any] | None) -> Iterable[tuple[str, Any]]:
    if options is None:
        return ()
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        expected = "expected names and values, such as {'timeZone': 'UTC'}"
        raise ArgumentError(expected, argument="options", value=_short(options))
    return options.items()


def option_text(name: str, value: object) -> str:
    if name.lower() in ("mode", "columnnameofcorruptrecord"):
        argument = "mode=" if name.lower() == "mode" else "corrupt_record= of Json"
        raise ArgumentError(f"it is an argument of its own, {argument}", argument="options", key=name)
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        raise ArgumentError("expected a text, True or False", argument="options", key=name, value=repr(value))
    return value


def selected(
    columns: list[str] | None, value: Typed | None
) -> tuple[list[str] | None, ColumnSpec | None, list[str] | None]:
    """Choose what a read decodes for columns among which may be fields of a flattened value.

    Returns:
        The columns of Kafka's to read, what decodes values, and the fields that are shown; `None` for all of them.
    """
    spec = spec_of("value", value)
    if columns is None or value is None or spec is None or not value.flatten:
        return columns, spec, None
    known = [name for name in value.field_names() if name not in KAFKA_COLUMNS]
    fields = [name for name in columns if name in known]
    others = [name for name in columns if name not in known]
    for name in others:
        check_column(name, [*KAFKA_COLUMNS, *known])
    if not fields or "value" in columns:
        return others, spec, None
    # Which records are dropped must not depend on the columns.
    return [*others, "value"], spec if value.drops else spec.only(fields), fields


def check_column(name: str, names: Collection[str]) -> None:
    """Refuse a column that is not among `names`, with the one that is most like it."""
    if name in names:
        return
    from difflib import get_close_matches

    by_lower = {each.lower(): each for each in reversed(list(names))}
    near = get_close_matches(name.lower(), by_lower, 1)
    hint = f"did you mean {by_lower[near[0]]!r}?" if near else None
    raise ArgumentError(
        f"there is no column {name!r}; the columns are {', '.join(names)}", argument="columns", hint=hint
    )


def check_columns(columns: Sequence[str] | None, key: object, value: object) -> None:
    """Refuse fields of keys and values among the names of Kafka's columns, with advice."""
    for name, given in (("key", key), ("value", value)):
        if isinstance(given, Typed) and columns is not None:
            fields = given.field_names()
            for column in columns:
                field = column.removeprefix(f"{name}.")
                if column not in KAFKA_COLUMNS and field in fields:
                    raise ArgumentError(
                        f"{column!r} is a field of {name}, and the column {name!r} brings all fields of its schema",
                        argument="columns",
                        hint=f"Give `columns=[{name!r}, ...]`, and `{name}=` a schema of the fields that you want",
                    )


def _short(given: object) -> str:
    text = repr(given)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _hint(given: object) -> str | None:
    """Return advice for a function, which other clients take, or another object that is no decoder."""
    if callable(given) and not (isinstance(given, type) and issubclass(given, Typed)):
        return "a function would be called for each record: decode the column of bytes with it, or encode what is sent"
    return None


def spec_of(name: str, given: object) -> ColumnSpec | None:
    if given is None:
        return None
    if not isinstance(given, Typed):
        raise ArgumentError(
            "expected monedula.Json(schema), Avro(schema), Protobuf(schema), or nothing for bytes",
            argument=name,
            value=_short(given),
            hint=_hint(given),
        )
    if name == "key" and given.flatten:
        raise ArgumentError(
            "only the fields of values can be columns of their own",
            argument="key",
            value=f"{type(given).__name__}(flatten=True)",
        )
    return given.spec
