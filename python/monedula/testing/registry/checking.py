"""Check of a schema against earlier ones, by the level of a subject."""

from collections.abc import Sequence

from monedula.testing.registry.definition import Definition
from monedula.testing.registry.store import Version

LEVELS = ("NONE", "BACKWARD", "FORWARD", "FULL", "BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE", "FULL_TRANSITIVE")


def broken(level: str, new: Definition, earlier: Sequence[Version]) -> list[str]:
    """Why a new schema breaks a level, beside the versions that come before it; nothing if it does not.

    Args:
        level: one of `LEVELS`.
        new: the schema.
        earlier: the versions, the oldest first. Without `TRANSITIVE` only the last of them counts.
    """
    if level == "NONE":
        return []
    counted = earlier if level.endswith("_TRANSITIVE") else earlier[-1:]
    for version in reversed(counted):
        reasons = _between(level, new, version.definition)
        if reasons:
            told = [f"{{oldSchemaVersion: {version.number}}}", f"{{oldSchema: '{version.definition.text}'}}"]
            return [*reasons, *told, f"{{compatibility: '{level}'}}"]
    return []


def _between(level: str, new: Definition, old: Definition) -> list[str]:
    if new.kind != old.kind:
        return [f"Incompatible because of different schema type: {new.kind} after {old.kind}"]
    reasons = []
    if level.startswith(("BACKWARD", "FULL")):
        reasons += new.parsed.cannot_read(old.parsed)
    if level.startswith(("FORWARD", "FULL")):
        reasons += [reason for reason in old.parsed.cannot_read(new.parsed) if reason not in reasons]
    return reasons
