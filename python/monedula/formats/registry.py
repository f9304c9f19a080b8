"""`SchemaRegistry`: the subjects of a schema registry, their versions, and new ones."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from monedula._config.texts import dotted
from monedula._monedula import stable_avro
from monedula._reprs import of_client
from monedula.config import RawSettings, Settings, raw_settings
from monedula.errors import ArgumentError, SchemaRegistryError
from monedula.formats._typed import Typed, registry_core
from monedula.formats.avro import Avro

_EXAMPLE = "{'schema.registry.url': 'http://localhost:8081'}"
_INSTEAD_OF = {
    "AVRO": "give the text of the Avro schema, with kind='AVRO'; one of a subject is there already",
    "JSON": "give the JSON Schema as a dict or its text, with kind='JSON'",
    "PROTOBUF": "give the text of the .proto file, with kind='PROTOBUF'",
}


@dataclass(frozen=True)
class RegisteredSchema:
    """A version of a subject, as the registry has it."""

    subject: str
    version: int
    id: int
    """The id by which values name the schema, in the subject's context."""
    kind: str
    """`"AVRO"`, `"PROTOBUF"` or `"JSON"`."""
    schema: str
    """The text of the schema."""
    references: tuple[tuple[str, str, int], ...] = ()
    """The schemas that it refers to: the name, subject and version of each."""


class SchemaRegistry:
    """A schema registry that speaks Confluent's API: `SchemaRegistry({"schema.registry.url": ...})`.

    The settings are a consumer's, of which only those of the registry and `proxy.url` are used. Every call waits for
    the registry's answer, as long as `schema.registry.request.timeout.ms` and `schema.registry.max.retries` allow.

    Raises:
        ConfigError: if a setting is wrong.
        ArgumentError: if the settings name no registry.
    """

    def __init__(self, config: Settings | RawSettings | None = None, /, **settings: Any) -> None:
        try:
            raw = config if isinstance(config, RawSettings) else raw_settings(config, settings, example=_EXAMPLE)
        finally:
            del config, settings  # keeps passwords out of tracebacks that show locals
        self.core = registry_core(raw)
        urls = next((value for key, value in raw if dotted(key) == "schema.registry.url"), "")
        self._servers = ",".join(urlsplit(url.strip()).netloc for url in urls.split(","))

    def __repr__(self) -> str:
        """The hosts of the registry."""
        return of_client(self, self._servers, ())

    def subjects(self) -> list[str]:
        """The names of all subjects, sorted."""
        return sorted(map(str, _expect(list, self._ask("/subjects"))))

    def versions(self, subject: str) -> list[int]:
        """The numbers of a subject's versions.

        Raises:
            SchemaRegistryError: if there is no such subject, or the request fails.
        """
        return sorted(map(int, _expect(list, self._ask(f"/subjects/{_part(subject)}/versions"))))

    def get(self, subject: str, version: int | None = None) -> RegisteredSchema:
        """A version of a subject, the latest if no number is given.

        Raises:
            SchemaRegistryError: if there is no such subject or version, or the request fails.
        """
        number = "latest" if version is None else version
        found = _expect(dict, self._ask(f"/subjects/{_part(subject)}/versions/{number}"))
        try:
            references = [(each["name"], each["subject"], each["version"]) for each in found.get("references") or ()]
            kind = found.get("schemaType") or "AVRO"
            return RegisteredSchema(
                found["subject"], found["version"], found["id"], kind, found["schema"], tuple(references)
            )
        except (KeyError, TypeError) as error:
            reason = _no_registry(f"there is no {error} in it")
            raise SchemaRegistryError(reason, reason=reason) from None

    def register(
        self, subject: str, schema: Any, *, kind: str = "AVRO", references: Sequence[tuple[str, str, int]] = ()
    ) -> int:
        """Register a schema as the next version of a subject; of one that is registered already, nothing changes.

        Args:
            subject: such as `"orders-value"`.
            schema: its text, or what `json.loads` makes of it; or a `monedula.Avro` with the schema. Of Avro, it is
                registered as `send_batch` does, without blanks and in one order, so that both mean the same version.
            kind: `"AVRO"`, `"PROTOBUF"` or `"JSON"`.
            references: the schemas that it refers to: a name, and the subject and version that are meant.

        Returns:
            The schema's id.

        Raises:
            SchemaRegistryError: if the registry refuses it, with its reasons, or the request fails.
            ArgumentError: if `schema` is none of these.
        """
        body = _body(schema, kind, references, is_stable=True)
        answer = self._ask(f"/subjects/{_part(subject)}/versions", body)
        number = _expect(dict, answer).get("id")
        if not isinstance(number, int):
            reason = _no_registry("there is no id in it")
            raise SchemaRegistryError(reason, reason=reason)
        return number

    def check(
        self,
        subject: str,
        schema: Any,
        version: int | None = None,
        *,
        kind: str = "AVRO",
        references: Sequence[tuple[str, str, int]] = (),
    ) -> list[str]:
        """Why a schema is not compatible with a version of a subject, the latest if no number is given.

        Arguments and errors as `register`.

        Returns:
            The registry's reasons; none if the schema is compatible by the rule of the subject.
        """
        number = "latest" if version is None else version
        path = f"/compatibility/subjects/{_part(subject)}/versions/{number}?verbose=true"
        answer = _expect(dict, self._ask(path, _body(schema, kind, references)))
        if answer.get("is_compatible") is True:
            return []
        return [str(each) for each in answer.get("messages") or ()] or ["not compatible; the registry says no more"]

    def _ask(self, path: str, body: str | None = None) -> Any:
        return json.loads(self.core.request(path, body))


def _part(subject: str) -> str:
    if not isinstance(subject, str) or not subject:
        raise ArgumentError.of("subject", subject, "expected the name of a subject, such as 'orders-value'")
    return quote(subject, safe="")


def _body(schema: Any, kind: str, references: Sequence[tuple[str, str, int]], is_stable: bool = False) -> str:
    text = schema if isinstance(schema, str) else text_of(schema, kind)
    if is_stable and kind == "AVRO":
        # Invalid schemas are left to the registry to refuse.
        text = stable_avro(text) or text
    body: dict[str, Any] = {"schema": text}
    if kind != "AVRO":
        body["schemaType"] = kind
    if references:
        body["references"] = [
            {"name": name, "subject": subject, "version": version} for name, subject, version in references
        ]
    return json.dumps(body)


def text_of(schema: Any, kind: str) -> str:
    """Return the text of a schema that is given in another form."""
    if isinstance(schema, Avro) and not schema.is_of_registry and kind == "AVRO":
        return schema.reader
    if isinstance(schema, Typed):
        shown = f"{type(schema).__name__}(...), kind={kind!r}"
        raise ArgumentError(_INSTEAD_OF[schema._KIND], argument="schema", value=shown)
    try:
        return json.dumps(schema)
    except (TypeError, ValueError) as error:
        given = type(schema).__name__
        raise ArgumentError(
            f"expected its text, or what json.loads makes of it, and not a value of type {given}: {error}",
            argument="schema",
        ) from None


def _expect(kind: type, answer: Any) -> Any:
    if not isinstance(answer, kind):
        reason = _no_registry(f"it is {str(answer)[:60]!r}")
        raise SchemaRegistryError(reason, reason=reason)
    return answer


def _no_registry(why: str) -> str:
    return f"the schema registry's answer cannot be used: {why}; is schema.registry.url that of a registry?"
