"""`monedula schemas`: the subjects of a schema registry, their versions, and new ones."""

import json
import re
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from monedula.cli.administration import Connection, administration
from monedula.cli.failures import Failure, UsageError
from monedula.cli.running import FAILED, say, text_in
from monedula.cli.tables import AsJson, show
from monedula.formats.registry import SchemaRegistry

URL = "schema.registry.url"

Subject = Annotated[str, Argument(help="The subject, such as orders-value.")]
Version = Annotated[int | None, Option("--version", min=1, help="Its version; the latest if left out.")]
File = Annotated[Path, Argument(help="The file with the schema; - is standard input.")]
Kind = Annotated[str, Option("--type", metavar="TYPE", help="avro, protobuf or json.")]
References = Annotated[
    list[str] | None,
    Option(
        "--reference",
        metavar="NAME=SUBJECT:VERSION",
        help="A schema that it refers to by this name, and the subject and version that are meant. Repeatable.",
    ),
]


@administration("schemas list")
def list_subjects(connection: Connection, as_json: AsJson = False) -> None:
    """List the subjects of a registry. The setting schema.registry.url names it.

    Examples:
        monedula schemas list -F registry.properties
        monedula schemas list -F registry.properties --json
    """
    show(("subject",), [(subject,) for subject in _registry(connection).subjects()], as_json)


@administration("schemas show")
def show_schema(subject: Subject, connection: Connection, version: Version = None, as_json: AsJson = False) -> None:
    """Write the schema of a subject, as it was registered. With --json it is all that is known of it.

    Examples:
        monedula schemas show orders-value -F registry.properties
        monedula schemas show orders-value --version 3 -F registry.properties > order.avsc
    """
    found = _registry(connection).get(subject, version)
    if not as_json:
        sys.stdout.write(found.schema.rstrip("\n") + "\n")
        return
    references = [f"{name}={of}:{number}" for name, of, number in found.references]
    row = (found.subject, found.version, found.id, found.kind.lower(), references, found.schema)
    show(("subject", "version", "id", "type", "references", "schema"), [row], as_json=True)


@administration("schemas versions")
def versions(subject: Subject, connection: Connection, as_json: AsJson = False) -> None:
    """List the versions of a subject, with their ids. By these, records name them.

    Examples:
        monedula schemas versions orders-value -F registry.properties
    """
    registry = _registry(connection)
    found = [registry.get(subject, number) for number in registry.versions(subject)]
    show(("version", "id", "type"), [(each.version, each.id, each.kind.lower()) for each in found], as_json)


@administration("schemas register")
def register(
    subject: Subject,
    file: File,
    connection: Connection,
    kind: Kind = "avro",
    reference: References = None,
    as_json: AsJson = False,
) -> None:
    """Register a schema for a subject, and write its id. It is the next version, if there is none with this schema.

    Examples:
        monedula schemas register orders-value order.avsc -F registry.properties
        monedula schemas register lines-value line.avsc --reference com.example.Item=item:2 -F registry.properties
    """
    references = _references(reference)
    text, kind = _text(file, _kind(kind)), _kind(kind)
    number = _registry(connection).register(subject, text, kind=kind, references=references)
    show(("id",), [(number,)], as_json)


@administration("schemas check")
def check(
    subject: Subject,
    file: File,
    connection: Connection,
    version: Version = None,
    kind: Kind = "avro",
    reference: References = None,
) -> None:
    """Check whether a schema is compatible with a subject. If not, the exit code is 1, and the reasons are written.

    Examples:
        monedula schemas check orders-value order.avsc -F registry.properties
        monedula schemas check orders-value order.avsc --version 3 -F registry.properties
    """
    references = _references(reference)
    text, kind = _text(file, _kind(kind)), _kind(kind)
    reasons = _registry(connection).check(subject, text, version, kind=kind, references=references)
    which = "the latest version" if version is None else f"version {version}"
    if not reasons:
        say(f"{file} is compatible with {which} of {subject}")
        return
    sys.stdout.write("".join(f"{reason}\n" for reason in reasons))
    sys.stdout.flush()
    say(f"{file} is not compatible with {which} of {subject}")
    raise typer.Exit(FAILED)


def _registry(connection: Connection) -> SchemaRegistry:
    from monedula.cli.settings import settings_of

    settings = settings_of(*connection)
    if not {name.replace("_", ".") for name in settings} & {URL}:
        raise UsageError(f"which registry is asked is a setting: -X {URL}=http://localhost:8081, or a file for -F")
    return SchemaRegistry(settings)


def _kind(name: str) -> str:
    if name.lower() not in ("avro", "protobuf", "json"):
        raise UsageError(f"--type {name}: expected avro, protobuf or json")
    return name.upper()


def _references(texts: list[str] | None) -> list[tuple[str, str, int]]:
    found = []
    for text in texts or ():
        name, equals, rest = text.partition("=")
        subject, colon, version = rest.rpartition(":")
        if not (equals and colon and name and subject and re.fullmatch("[0-9]{1,9}", version)):
            raise UsageError(f"--reference {text}: expected NAME=SUBJECT:VERSION, such as com.example.Item=item:2")
        found.append((name, subject, int(version)))
    return found


def _text(file: Path, kind: str) -> str:
    text = text_in(file)
    if kind != "PROTOBUF":
        try:
            json.loads(text)
        except ValueError as error:
            raise Failure(f"{file} is not JSON, as schemas of type {kind.lower()} are: {error}") from None
        except RecursionError:
            raise Failure(f"{file}: its JSON is nested too deep") from None
    return text


HELP = "List, show, register and check schemas in a registry."
COMMANDS = (
    ("list", list_subjects),
    ("show", show_schema),
    ("versions", versions),
    ("register", register),
    ("check", check),
)
