"""Plans which brokers keep the replicas of partitions: evenly, on several racks, with few moves."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import product

from monedula.types.partitions import TopicPartition

Assignment = dict[TopicPartition, list[int]]


def balanced(
    current: Mapping[TopicPartition, Sequence[int]],
    brokers: Sequence[int],
    racks: Mapping[int, str | None],
    replication_factor: int | None = None,
) -> Assignment:
    """An assignment of the partitions to these brokers.

    Replicas on these brokers stay where they can. Each broker gets as many replicas, and leads as many partitions, as
    each other, but for one, if the kept replicas allow that; new replicas go to racks that the partition does not have
    yet.

    Args:
        current: the brokers of each partition, the preferred leader first.
        brokers: the brokers that are to have the replicas; at least as many as a partition has replicas.
        racks: the rack of each broker.
        replication_factor: replicas of each partition; as many as now if left out.
    """
    plan: Assignment = {}
    for partition in sorted(current):
        wanted = replication_factor or len(current[partition])
        plan[partition] = [broker for broker in current[partition] if broker in brokers][:wanted]
    loads = Counter(dict.fromkeys(brokers, 0))
    loads.update(broker for replicas in plan.values() for broker in replicas)
    for partition, replicas in plan.items():
        while len(replicas) < (replication_factor or len(current[partition])):
            used = {racks.get(broker) for broker in replicas}
            free = [broker for broker in brokers if broker not in replicas]
            chosen = min(free, key=lambda broker: (racks.get(broker) in used, loads[broker], broker))
            replicas.append(chosen)
            loads[chosen] += 1
    _even_out(loads, lambda high, low: _move(plan, current, racks, high, low))
    leads = Counter(dict.fromkeys(brokers, 0))
    leads.update(replicas[0] for replicas in plan.values())
    _even_out(leads, lambda high, low: _lead(plan, current, high, low))
    return plan


def _even_out(counts: "Counter[int]", shift: Callable[[int, int], bool]) -> None:
    """Shift one from a broker with more to one with fewer, until none can be or no two differ by more than one."""
    shifted = True
    while shifted:
        shifted = False
        ordered = sorted(counts, key=lambda broker: (-counts[broker], broker))
        for high, low in product(ordered, reversed(ordered)):
            if counts[high] - counts[low] > 1 and shift(high, low):
                counts[high] -= 1
                counts[low] += 1
                shifted = True
                break


def _move(
    plan: Assignment,
    current: Mapping[TopicPartition, Sequence[int]],
    racks: Mapping[int, str | None],
    high: int,
    low: int,
) -> bool:
    """Move a replica from one broker to another, unless that leaves a partition on fewer racks.

    A replica that is new anyway is moved first, one that leads last.
    """
    movable = [at for at, replicas in plan.items() if high in replicas and low not in replicas]
    for at in sorted(movable, key=lambda at: (high in current[at], plan[at][0] == high)):
        moved = [low if broker == high else broker for broker in plan[at]]
        if len({racks.get(broker) for broker in moved}) >= len({racks.get(broker) for broker in plan[at]}):
            plan[at] = moved
            return True
    return False


def _lead(plan: Assignment, current: Mapping[TopicPartition, Sequence[int]], high: int, low: int) -> bool:
    """Let one broker lead a partition in place of another: one that changes anyway, if there is one."""
    led = [at for at, replicas in plan.items() if replicas[0] == high and low in replicas]
    if not led:
        return False
    at = min(led, key=lambda at: plan[at] == list(current[at]))
    plan[at] = [low, *(broker for broker in plan[at] if broker != low)]
    return True
