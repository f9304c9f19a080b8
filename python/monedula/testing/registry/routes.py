"""Routes of the registry."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, unquote

from monedula.testing.registry import associations, by_id, settings, subjects
from monedula.testing.registry.errors import ApiError
from monedula.testing.registry.requests import Request
from monedula.testing.registry.store import Store

Route = Callable[[Store, Request], Any]


_CLUSTERS = {"kafka-cluster": "monedula", "schema-registry-cluster": "monedula"}

_ROUTES: list[tuple[str, str, Route]] = [
    ("GET", "", lambda *_: {}),
    ("GET", "v1/metadata/id", lambda *_: {"scope": {"path": [], "clusters": _CLUSTERS}}),
    ("GET", "contexts", by_id.list_contexts),
    ("GET", "schemas", by_id.list_schemas),
    ("GET", "schemas/types", by_id.list_kinds),
    ("GET", "schemas/ids/*", by_id.get_schema),
    ("GET", "schemas/ids/*/schema", by_id.get_text),
    ("GET", "schemas/ids/*/subjects", by_id.get_subjects),
    ("GET", "schemas/ids/*/versions", by_id.get_versions),
    ("GET", "schemas/guids/*", by_id.get_by_guid),
    ("GET", "schemas/guids/*/ids", by_id.get_ids_of_guid),
    ("GET", "subjects", subjects.list_subjects),
    ("POST", "subjects/*", subjects.look_up),
    ("DELETE", "subjects/*", subjects.delete_subject),
    ("GET", "subjects/*/metadata", subjects.get_by_metadata),
    ("GET", "subjects/*/versions", subjects.list_versions),
    ("POST", "subjects/*/versions", subjects.register),
    ("GET", "subjects/*/versions/*", subjects.get_version),
    ("DELETE", "subjects/*/versions/*", subjects.delete_version),
    ("GET", "subjects/*/versions/*/schema", subjects.get_text),
    ("GET", "subjects/*/versions/*/referencedby", subjects.referenced_by),
    ("POST", "compatibility/subjects/*/versions", subjects.check_all),
    ("POST", "compatibility/subjects/*/versions/*", subjects.check_version),
    ("POST", "associations", associations.create),
    ("GET", "associations/resources/*/*", associations.list_of_resource),
    ("DELETE", "associations/resources/*", associations.delete),
    ("GET", "config", settings.get_config),
    ("PUT", "config", settings.set_config),
    ("DELETE", "config", settings.delete_config),
    ("GET", "config/*", settings.get_config),
    ("PUT", "config/*", settings.set_config),
    ("DELETE", "config/*", settings.delete_config),
    ("GET", "mode", settings.get_mode),
    ("PUT", "mode", settings.set_mode),
    ("DELETE", "mode", settings.delete_mode),
    ("GET", "mode/*", settings.get_mode),
    ("PUT", "mode/*", settings.set_mode),
    ("DELETE", "mode/*", settings.delete_mode),
]


def answer(store: Store, method: str, target: str, body: Any) -> Any:
    """Answer a request."""
    path, _, query = target.partition("?")
    parts = [unquote(part) for part in path.strip("/").split("/")]
    request = Request(method, path, dict(parse_qsl(query, keep_blank_values=True)), body)
    if parts[0] == "contexts" and len(parts) > 2:
        request.context = "." + parts[1].strip(":").removeprefix(".")
        parts = parts[2:]
    methods = set()
    for allowed, pattern, route in _ROUTES:
        found = _matched(pattern.split("/"), parts)
        if found is None:
            continue
        if allowed == method:
            request.parts = found
            return route(store, request)
        methods.add(allowed)
    raise ApiError(405, "HTTP 405 Method Not Allowed") if methods else ApiError(404, "HTTP 404 Not Found")


def _matched(pattern: list[str], parts: list[str]) -> tuple[str, ...] | None:
    if len(pattern) != len(parts) or any(
        wanted not in ("*", part) for wanted, part in zip(pattern, parts, strict=True)
    ):
        return None
    return tuple(part for wanted, part in zip(pattern, parts, strict=True) if wanted == "*")
