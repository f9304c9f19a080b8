"""What a failing test's report says about its embedded brokers: faults with their hits, groups, the last requests."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from monedula.testing import Broker, Group

REQUESTS = 20
"""How many of the last requests are shown."""


def described(broker: "Broker") -> str:
    """The state of a broker as text. A broker that has stopped says so."""
    try:
        return "\n".join([*_faults(broker), *_groups(broker), *_requests(broker)])
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
    yield f"the last {len(requests)} requests:" if requests else "no request came"
    yield from (f"  {request}" for request in requests)
