"""Routes of subjects and their versions."""

from typing import Any

from monedula.testing.registry import names
from monedula.testing.registry.checking import broken
from monedula.testing.registry.definition import Definition
from monedula.testing.registry.errors import ApiError, incompatible, no_schema, no_subject, not_permitted
from monedula.testing.registry.requests import Request
from monedula.testing.registry.schemas import define
from monedula.testing.registry.store import LATEST, Store, Version


def list_subjects(store: Store, request: Request) -> list[str]:
    """GET /subjects."""
    found = store.names(deleted=request.flag("deleted"), deleted_only=request.flag("deletedOnly"))
    return request.page([subject for subject in found if begins(request, subject)])


def begins(request: Request, subject: str) -> bool:
    """Return true if `subjectPrefix` asks for a subject."""
    if request.context != names.DEFAULT and names.split(subject)[0] != request.context:
        return False
    prefix = request.query.get("subjectPrefix", names.EVERY)
    if prefix.startswith(names.EVERY):
        return names.split(subject)[1].startswith(prefix.removeprefix(names.EVERY))
    context, name = names.split(names.within(request.context, prefix))
    return names.split(subject)[0] == context and names.split(subject)[1].startswith(name)


def list_versions(store: Store, request: Request) -> list[int]:
    """GET /subjects/*/versions."""
    only = request.flag("deletedOnly")
    found = store.known(request.subject, deleted=only or request.flag("deleted"))
    numbers = [version.number for version in found if version.is_deleted or not only]
    if not numbers:
        raise no_subject(request.subject)
    return request.page(numbers)


def get_version(store: Store, request: Request) -> dict[str, Any]:
    """GET /subjects/*/versions/*."""
    version = _version(store, request)
    return {**version.to_json(), "schema": formatted(version.definition, request)}


def get_text(store: Store, request: Request) -> Any:
    """GET /subjects/*/versions/*/schema: the schema alone."""
    return RawText(_version(store, request).definition.text)


def get_by_metadata(store: Store, request: Request) -> dict[str, Any]:
    """GET /subjects/*/metadata: the latest version whose metadata have these keys and values."""
    pairs = list(zip(request.query.get("key", "").split(","), request.query.get("value", "").split(","), strict=False))
    for version in reversed(store.known(request.subject, deleted=request.flag("deleted"))):
        properties = version.definition.extra.get("metadata", {}).get("properties") or {}
        if all(properties.get(key) == value for key, value in pairs):
            return version.to_json()
    raise no_schema()


def referenced_by(store: Store, request: Request) -> list[int]:
    """GET /subjects/*/versions/*/referencedby: the ids of what refers to a version."""
    version = store.version(request.subject, request.version, deleted=True)
    return sorted({other.id for other in store.referring(version)})


def register(store: Store, request: Request) -> dict[str, Any]:
    """POST /subjects/*/versions."""
    subject = names.checked(request.subject)
    mode = store.mode(subject)
    body = request.fields
    definition = define(store, subject, body, normalize=_normalizes(store, request))
    for version in store.versions(subject):
        if version.definition.identity == definition.identity and body.get("id") in (None, -1, 0, version.id):
            return _registered(version)
    if mode.startswith("READONLY"):
        raise not_permitted(f"Subject {subject} is in read-only mode")
    number, version_number = _given(body, "id"), _given(body, "version")
    if mode == "IMPORT":
        if number is None:
            raise not_permitted(f"Subject {subject} is in import mode: a schema is registered with its id")
        if version_number in store.subjects.get(subject, {}):
            raise not_permitted(f"Subject {subject} has a version {version_number}, with another schema")
        return _registered(store.add(subject, definition, number, version_number))
    if number is not None:
        raise not_permitted(f"Subject {subject} is not in import mode")
    latest = max((version.number for version in store.versions(subject, deleted=True)), default=0)
    if version_number not in (None, latest + 1):
        raise ApiError(42201, f"Version is not one more than previous version: {version_number} after {latest}")
    reasons = broken(store.config(subject, "compatibilityLevel"), definition, store.versions(subject))
    if reasons:
        raise incompatible(subject, reasons)
    return _registered(store.add(subject, definition, None, None))


def look_up(store: Store, request: Request) -> dict[str, Any]:
    """POST /subjects/*: the version of a schema that is registered."""
    found = store.known(request.subject, deleted=request.flag("deleted"))
    definition = define(store, request.subject, request.fields, normalize=_normalizes(store, request))
    for version in reversed(found):
        if version.definition.identity == definition.identity:
            return version.to_json()
    raise no_schema()


def check_version(store: Store, request: Request) -> dict[str, Any]:
    """POST /compatibility/subjects/*/versions/*: beside one version."""
    version = store.version(request.subject, request.version)
    return _checked(store, request, [version])


def check_all(store: Store, request: Request) -> dict[str, Any]:
    """POST /compatibility/subjects/*/versions: beside those that the level names; nothing contradicts where none is."""
    return _checked(store, request, store.versions(request.subject))


def _checked(store: Store, request: Request, earlier: list[Version]) -> dict[str, Any]:
    definition = define(store, request.subject, request.fields, normalize=_normalizes(store, request))
    reasons = broken(store.config(request.subject, "compatibilityLevel"), definition, earlier)
    told: dict[str, Any] = {"is_compatible": not reasons}
    return {**told, "messages": reasons} if request.flag("verbose") else told


def delete_subject(store: Store, request: Request) -> list[int]:
    """DELETE /subjects/*: softly, or what was deleted softly for good."""
    subject = request.subject
    _refuse_readonly(store, subject)
    permanently = request.flag("permanent")
    versions = store.known(subject, deleted=True)
    there = [version for version in versions if not version.is_deleted]
    if permanently and there:
        raise ApiError(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")
    if not permanently and not there:
        advice = "Set permanent=true to delete permanently"
        raise ApiError(40404, f"Subject '{subject}' was soft deleted.{advice}")
    for version in versions if permanently else there:
        _refuse_referred(store, version)
    for version in versions if permanently else there:
        _delete(store, version)
    for settings in (store.configs, store.modes):
        settings.pop(subject, None)
    return [version.number for version in (versions if permanently else there)]


def delete_version(store: Store, request: Request) -> int:
    """DELETE /subjects/*/versions/*: softly, or one that was deleted softly for good."""
    subject, permanently = request.subject, request.flag("permanent")
    _refuse_readonly(store, subject)
    version = store.version(subject, request.version, deleted=request.version != LATEST)
    told = f"Subject '{subject}' Version {version.number} was"
    if permanently and not version.is_deleted:
        raise ApiError(40407, f"{told} not deleted first before being permanently deleted")
    if not permanently and version.is_deleted:
        raise ApiError(40406, f"{told} soft deleted.Set permanent=true to delete permanently")
    _refuse_referred(store, version)
    _delete(store, version)
    return version.number


def _delete(store: Store, version: Version) -> None:
    if version.is_deleted:
        store.remove(version)
    version.is_deleted = True


def _refuse_readonly(store: Store, subject: str) -> None:
    if store.mode(subject).startswith("READONLY"):
        raise not_permitted(f"Subject {subject} is in read-only mode")


def _refuse_referred(store: Store, version: Version) -> None:
    if any(other.subject != version.subject for other in store.referring(version)):
        told = f"subject={version.subject},version={version.number}"
        raise ApiError(42206, f"One or more references exist to the schema {{magic=1,keytype=SCHEMA,{told}}}.")


def _version(store: Store, request: Request) -> Version:
    deleted = request.flag("deleted") and request.version != LATEST
    return store.version(request.subject, request.version, deleted=deleted)


def _registered(version: Version) -> dict[str, Any]:
    # The text is left out: clients that have given a descriptor keep what they are answered in its place.
    return {"id": version.id, "version": version.number, "guid": version.definition.guid}


def _given(body: Any, name: str) -> int | None:
    given = body.get(name)
    if given in (None, -1, 0):
        return None
    if type(given) is not int or given < 1:
        raise ApiError(422, f"{name} is a whole number, 1 or more")
    return given


def _normalizes(store: Store, request: Request) -> bool:
    return request.flag("normalize") or bool(store.config(request.subject, "normalize"))


def formatted(definition: Definition, request: Request) -> str:
    """The text of a schema in the format of the query."""
    wanted = request.query.get("format", "")
    if not wanted:
        return definition.text
    made = getattr(definition.parsed, "formatted", None)
    text = made(wanted) if made else None
    if text is None:
        raise ApiError(42201, f"Format {wanted} is not supported for schema type {definition.kind} here")
    return str(text)


class RawText(str):
    """The text of a schema that is the whole answer."""
