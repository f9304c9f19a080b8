"""A limit on the copying of replicas that move: Kafka's settings for it on brokers and topics, set and removed."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from monedula.admin import Admin, Append, ConfigResource, Subtract
from monedula.cli.failures import UsageError
from monedula.types.partitions import TopicPartition

_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_LEADERS = "leader.replication.throttled.replicas"
_FOLLOWERS = "follower.replication.throttled.replicas"
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}

Replicas = Mapping[TopicPartition, Sequence[int]]


def rate_of(text: str) -> int:
    """Bytes a second of a text such as `10485760` or `10m`."""
    found = re.fullmatch(r"([0-9]{1,15})([kmg]?)", text.strip().lower())
    rate = 0 if found is None else int(found[1]) * _UNITS[found[2]]
    if not 0 < rate < 1 << 63:
        raise UsageError(f"--throttle {text}: expected bytes a second, such as 10485760 or 10m")
    return rate


def throttle(admin: Admin, rate: int, before: Replicas, after: Replicas) -> "Lifting":
    """Limit the copying for these moves: on the brokers that take part, and for the replicas that are read and made."""
    added = {topic: _entries(topic, before, after) for topic in sorted({at.topic for at in after})}
    # Made of the settings before: a broker hears of changes a moment later.
    lifting = _lifting(admin, list(after), added)
    changes: dict[ConfigResource, dict[str, str | Append]] = {
        ConfigResource("broker", str(broker)): dict.fromkeys(_RATES, str(rate)) for broker in lifting.brokers
    }
    for topic, lists in added.items():
        changes[ConfigResource("topic", topic)] = {name: Append(",".join(each)) for name, each in lists.items() if each}
    admin.alter_configs({resource: each for resource, each in changes.items() if each})
    return lifting


def unthrottle(admin: Admin, moves: Collection[TopicPartition]) -> bool:
    """Remove the limit of moves that an earlier command began; false if there was none."""
    lifting = _lifting(admin, moves, {})
    if lifting.topics:
        lifting.lift(admin)
    return bool(lifting.topics)


class Lifting(NamedTuple):
    """Changes that lift a limit."""

    brokers: list[int]
    topics: "dict[ConfigResource, dict[str, Subtract | None]]"

    def lift(self, admin: Admin) -> None:
        """Lift the limit; that of brokers only if nothing moves any more."""
        changes = dict(self.topics)
        if not admin.list_partition_reassignments():
            changes |= {ConfigResource("broker", str(broker)): dict.fromkeys(_RATES) for broker in self.brokers}
        admin.alter_configs(changes)


def _entries(topic: str, before: Replicas, after: Replicas) -> dict[str, list[str]]:
    """The replicas of a topic that are limited, as Kafka writes them, by the setting that lists them."""
    its = [at for at in sorted(after) if at.topic == topic]
    return {
        _LEADERS: [f"{at.partition}:{broker}" for at in its for broker in before[at]],
        _FOLLOWERS: [f"{at.partition}:{broker}" for at in its for broker in after[at] if broker not in before[at]],
    }


def _lifting(admin: Admin, moves: Collection[TopicPartition], added: Mapping[str, Mapping[str, list[str]]]) -> Lifting:
    """Changes that remove the entries of these partitions from topics, present ones and those that are added."""
    topics = [ConfigResource("topic", topic) for topic in sorted({at.topic for at in moves})]
    changes: dict[ConfigResource, dict[str, Subtract | None]] = {}
    brokers: set[str] = set()
    for topic, settings in admin.describe_configs(topics).items():
        numbers = {str(at.partition) for at in moves if at.topic == topic.name}
        for name in (_LEADERS, _FOLLOWERS):
            present = [entry for entry in (settings[name].value or "").split(",") if entry]
            its = [entry for entry in present if entry.partition(":")[0] in numbers]
            removed = list(dict.fromkeys([*its, *added.get(topic.name, {}).get(name, [])]))
            if removed:
                rest = len(its) < len(present)
                changes.setdefault(topic, {})[name] = Subtract(",".join(removed)) if rest else None
            brokers |= {entry.partition(":")[2] for entry in removed}
    # One that is not there has no settings.
    return Lifting([node.id for node in admin.describe_cluster().nodes if str(node.id) in brokers], changes)
