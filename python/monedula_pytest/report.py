"""What a failing test's report says about its embedded brokers: faults with their hits, groups, the last requests.

The same of the schema registry beside a broker.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from monedula.testing import Broker, Group

REQUESTS = 20
"""How many of the last requests are shown."""


def described(broker: "Broker") -> str:
    """The state of a broker as text. A broker that has stopped says so."""
    try:
        return "\n".join([*_faults(broker), *_groups(broker), *_requests(broker), *_registry(broker)])
    except Exception as error:
        return f"it cannot be asked: {type(error).__name__}: {error}"


def _faults(broker: "Broker") -> Iterator[str]:
    for fault in broker.control("faults", removed=True):
        given = {name: value for name, value in fault["when"].items() if value not in (None, [])}
        removed = ", removed" if fault["removed"] else ""
        yield f"fault {fault['fault']}: {_words(fault['what'])} when {_words(given)}: {fault['hits']} hits{removed}"


def _words(fields: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in fields.items() if value is not None) or "always"


def _groups(broker: "Broker") -> Iterator[str]:
    from monedula import KafkaError

    for listed in broker.groups():
        yield f"group {listed.group}: {listed.state}, {listed.type}, coordinator {listed.coordinator}"
        try:
            group = broker.group(listed.group)
        except KafkaError as error:
            yield f"  {error}"
        else:
            yield from _members(group)


def _members(group: "Group") -> Iterator[str]:
    for member in group.members:
        assigned = "unknown" if member.assignment is None else member.assignment
        yield f"  member {member.member_id} ({member.client_id} at {member.client_host}): {assigned}"
    for (topic, partition), offset in sorted(group.offsets.items()):
        yield f"  committed {topic}-{partition}: {offset}"


def _requests(broker: "Broker") -> Iterator[str]:
    requests = broker.requests()[-REQUESTS:]
    yield f"the last {len(requests)} requests:" if requests else "no request came to the broker"
    yield from (f"  {request}" for request in requests)


def _registry(broker: "Broker") -> Iterator[str]:
    registry = broker._registry  # `registry` raises if there is none
    if registry is None:
        return
    for each in registry._faults.told():
        what, when = (
            {"effect": each.effect, **each.arguments},
            {"method": each.method, "path": each.path, "on": each.on},
        )
        removed = ", removed" if each.is_removed else ""
        yield f"registry's fault {each.number}: {_words(what)} when {_words(when)}: {each.hits} hits{removed}"
    requests = registry.requests()[-REQUESTS:]
    yield f"the last {len(requests)} requests to the registry:" if requests else "no request came to the registry"
    for request in requests:
        query = f"?{request.query}" if request.query else ""
        yield f"  {request.method} {request.path}{query}: {request.status or 'no answer'}"
