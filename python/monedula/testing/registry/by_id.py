"""Routes of schemas by their ids and GUIDs."""

from collections.abc import Iterator
from typing import Any

from monedula.testing.registry import names
from monedula.testing.registry.definition import KINDS, Definition
from monedula.testing.registry.errors import ApiError, no_schema
from monedula.testing.registry.requests import Request, is_number
from monedula.testing.registry.store import Store, Version
from monedula.testing.registry.subjects import RawText, begins, formatted


def get_schema(store: Store, request: Request) -> dict[str, Any]:
    """GET /schemas/ids/*."""
    context, number = _found(store, request)
    definition = store.contexts[context].definitions[number]
    told = {**definition.to_json(), "schema": formatted(definition, request), "guid": definition.guid}
    if request.query.get("subject"):
        for version in _named(store, request):
            told |= {"subject": version.subject, "version": version.number}
    return {**told, "maxId": store.contexts[context].last_id} if request.flag("fetchMaxId") else told


def get_text(store: Store, request: Request) -> Any:
    """GET /schemas/ids/*/schema: the schema alone."""
    context, number = _found(store, request)
    return RawText(store.contexts[context].definitions[number].text)


def get_subjects(store: Store, request: Request) -> list[str]:
    """GET /schemas/ids/*/subjects."""
    found = _named(store, request)
    return request.page(sorted({version.subject for version in found}))


def get_versions(store: Store, request: Request) -> list[dict[str, Any]]:
    """GET /schemas/ids/*/versions."""
    found = _named(store, request)
    return request.page([{"subject": version.subject, "version": version.number} for version in found])


def get_by_guid(store: Store, request: Request) -> dict[str, Any]:
    """GET /schemas/guids/*."""
    for _, _, definition in _of_guid(store, request):
        return {**definition.to_json(), "schema": formatted(definition, request), "guid": definition.guid}
    raise no_schema(f"Schema {request.parts[0]}")


def get_ids_of_guid(store: Store, request: Request) -> list[dict[str, Any]]:
    """GET /schemas/guids/*/ids: where a schema has which id."""
    return [{"context": context, "id": number} for context, number, _ in _of_guid(store, request)]


def list_schemas(store: Store, request: Request) -> list[dict[str, Any]]:
    """GET /schemas: all versions of all subjects, or of each only the latest."""
    found = []
    for subject in store.names(deleted=request.flag("deleted")):
        if begins(request, subject):
            versions = store.versions(subject, deleted=request.flag("deleted"))
            found += versions[-1:] if request.flag("latestOnly") else versions
    return request.page([version.to_json() for version in found])


def list_kinds(_store: Store, _request: Request) -> list[str]:
    """GET /schemas/types."""
    return list(KINDS)


def list_contexts(store: Store, _request: Request) -> list[str]:
    """GET /contexts."""
    return sorted(store.contexts)


def _found(store: Store, request: Request) -> tuple[str, int]:
    """The context and the id: in the context of the subject, or in one where a subject of this name has it."""
    text = request.parts[0]
    if not is_number(text):
        raise ApiError(404, "HTTP 404 Not Found")
    number = int(text)
    subject = request.qualified(request.query.get("subject", ""))
    context, name = names.split(subject)
    if context in store.contexts and number in store.contexts[context].definitions:
        return context, number
    if name and context == names.DEFAULT:
        for other in store.contexts:
            if any(version.subject == names.joined(other, name) for version in _versions(store, other, number)):
                return other, number
    raise no_schema(f"Schema {number}")


def _versions(store: Store, context: str, number: int) -> list[Version]:
    return [version for version in store.all_versions(context) if version.id == number]


def _named(store: Store, request: Request) -> list[Version]:
    context, number = _found(store, request)
    wanted = request.query.get("subject")
    return [
        version
        for version in _versions(store, context, number)
        if (request.flag("deleted") or not version.is_deleted)
        and (not names.split(wanted or "")[1] or version.subject == request.qualified(str(wanted)))
    ]


def _of_guid(store: Store, request: Request) -> Iterator[tuple[str, int, Definition]]:
    for context, kept in sorted(store.contexts.items()):
        for number, definition in sorted(kept.definitions.items()):
            if definition.guid == request.parts[0].lower():
                yield context, number, definition
