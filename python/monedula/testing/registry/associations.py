"""Routes of associations: the subjects of the keys and values of a resource, which is a topic.

As `AssociatedNameStrategy` of Confluent's clients asks for them; the schema that a request of Confluent's may bring is
not registered with it.
"""

from typing import Any

from monedula.testing.registry.errors import ApiError, no_subject
from monedula.testing.registry.requests import Request
from monedula.testing.registry.store import Store

_ANY = "-"
"""The namespace of all clusters."""


def create(store: Store, request: Request) -> dict[str, Any]:
    """POST /associations: associate subjects with a resource, in place of those of the same type."""
    given = request.fields
    resource = {
        "resourceName": given.get("resourceName"),
        "resourceNamespace": given.get("resourceNamespace") or _ANY,
        "resourceId": given.get("resourceId"),
        "resourceType": given.get("resourceType") or "topic",
    }
    if not resource["resourceName"] or not resource["resourceId"] or not given.get("associations"):
        raise ApiError(42212, "an association has a resourceName, a resourceId and associations")
    made = []
    for each in given["associations"]:
        subject, kind = each.get("subject"), each.get("associationType") or "value"
        if subject not in store.names():
            raise no_subject(subject)
        lifecycle, is_frozen = each.get("lifecycle") or "STRONG", bool(each.get("frozen"))
        own = {"subject": subject, "associationType": kind, "lifecycle": lifecycle, "frozen": is_frozen}
        made.append(own)
        others = [one for one in store.associations if not _is_same(one, {**resource, **own})]
        store.associations = [*others, {**resource, **own}]
    return {**resource, "associations": made}


def list_of_resource(store: Store, request: Request) -> list[dict[str, Any]]:
    """GET /associations/resources/NAMESPACE/NAME."""
    namespace, name = request.parts
    found = [
        each
        for each in store.associations
        if each["resourceName"] == name
        and namespace in (_ANY, each["resourceNamespace"])
        and request.query.get("resourceType", each["resourceType"]) == each["resourceType"]
        and request.query.get("associationType", each["associationType"]) == each["associationType"]
    ]
    return request.page(found)


def delete(store: Store, request: Request) -> None:
    """DELETE /associations/resources/ID."""
    (number,) = request.parts
    kind = request.query.get("associationType")
    store.associations = [
        each
        for each in store.associations
        if each["resourceId"] != number or kind not in (None, each["associationType"])
    ]


def _is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(one[name] == other[name] for name in ("resourceId", "resourceType", "associationType"))
