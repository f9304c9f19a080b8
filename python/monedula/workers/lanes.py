"""`Lanes`: records that may be handled now. Records of one lane are handled one after the other, lanes concurrently.

It neither waits nor uses threads or tasks: callers from several threads must hold a lock.
"""

from collections import deque
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Literal, NamedTuple

from monedula._monedula import Record
from monedula.workers.progress import PartitionProgress

Order = Literal["key", "partition", "none"]
"""Records handled in log order: those with the same key, all of a partition, or none."""


class Item(NamedTuple):
    """A record that waits for its handler."""

    part: PartitionProgress
    row: int
    record: Record


class Lane:
    """Records that wait for each other; a `shared` lane holds records that wait for no others."""

    __slots__ = ("is_offered", "items", "key", "partition", "shared")

    def __init__(self, partition: "Assigned", key: bytes | None, shared: bool) -> None:
        self.partition = partition
        self.key = key
        self.shared = shared
        self.items: deque[Item] = deque()
        self.is_offered = False
        """True if the lane is in the queue, or a handler has records of it."""


class Task:
    """Records for one call of the handler. They stay together until the call succeeds, or they are given up."""

    __slots__ = ("attempts", "is_last_attempt", "items", "lane", "part")

    def __init__(self, lane: Lane, items: list[Item]) -> None:
        self.lane = lane
        self.part = items[0].part
        self.items = items
        self.attempts = 0
        self.is_last_attempt = False


class Assigned:
    """State of a partition in a run."""

    __slots__ = ("begun", "frozen", "keyed", "parts", "rows", "unordered")

    def __init__(self) -> None:
        self.parts: deque[PartitionProgress] = deque()
        self.rows = 0
        self.begun = -1
        """Highest number of a row that was started."""
        self.frozen = False
        """True if only rows before the highest one started may start."""
        self.keyed: dict[bytes | None, Lane] = {}
        self.unordered = Lane(self, None, shared=True)


class Lanes:
    """Records of a run that wait, and those that are being handled.

    Args:
        order: decides which records wait for each other.

    Attributes:
        waiting: records that wait for their handler, retries included.
        in_flight: records whose handler is running.
        queued_bytes: the memory of parts with unfinished rows.
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        self._partitions: dict[tuple[str, int], Assigned] = {}
        self._ready: deque[Lane | Task] = deque()
        self._later: list[tuple[float, int, Task]] = []
        self._numbers = count()
        self._settled: list[PartitionProgress] = []
        self.waiting = 0
        self.in_flight = 0
        self.queued_bytes = 0

    def assigned(self, topic: str, partition: int) -> Assigned:
        """Return the state of a partition, new or existing."""
        return self._partitions.setdefault((topic, partition), Assigned())

    def add(self, part: PartitionProgress, records: list[Record]) -> int:
        """Append the rows of a part, in their order. Returns how many more tasks can start because of it."""
        assigned = self.assigned(part.topic, part.partition)
        assigned.parts.append(part)
        assigned.rows += len(records)
        before = len(self._ready)
        by_key, keyed, unordered = self._order == "key", assigned.keyed, assigned.unordered
        one = None if by_key or self._order == "none" else self._lane(assigned, None)
        for row, record in enumerate(records):
            if by_key and (key := record.key) is not None:
                if not isinstance(key, bytes):
                    key = repr(key).encode()  # decoded keys are dicts
                lane = keyed.get(key) or self._lane(assigned, key)
            else:
                lane = one or unordered
            lane.items.append(Item(part, row, record))
            if not lane.is_offered:
                lane.is_offered = True
                self._ready.append(lane)
        self.waiting += len(records)
        self.queued_bytes += part.nbytes
        return len(self._ready) - before + len(unordered.items)

    def take(self, limit: int, now: float) -> Task | None:
        """Take the next records to handle, at most `limit` of one lane; `None` if there is nothing to do now."""
        while self._later and self._later[0][0] <= now:
            self._ready.append(heappop(self._later)[2])
        while self._ready:
            task = self._ready.popleft()
            if isinstance(task, Lane):
                found = self._of(task, limit)
                if found is None:
                    continue
                task = found
            self._begun(task)
            return task
        return None

    def next_due(self, now: float) -> float | None:
        """Return the seconds until the next retry is due; `None` without one."""
        return max(self._later[0][0] - now, 0.0) if self._later else None

    def done(self, task: Task) -> None:
        """Mark the records of a task as finished."""
        for part, row, _ in task.items:
            part.finish(row)
            if part.frontier >= part.rows:
                self._settle(part)
        self._ended(task)

    def again(self, task: Task, at: float) -> None:
        """Schedule a task for another attempt at that time; its lane waits for it."""
        self._left(task)
        self.waiting += len(task.items)
        heappush(self._later, (at, next(self._numbers), task))

    def forgotten(self, task: Task) -> None:
        """Leave the records of a task unfinished for good."""
        for part, row, _ in task.items:
            self._give_up(part, row)
        self._ended(task)

    def leave_out(self, task: Task) -> None:
        """Give up a task, and what waits behind it in its lane: a record must not be handled before an earlier one."""
        if not task.lane.shared:
            items, task.lane.items = task.lane.items, deque[Item]()
            self.waiting -= len(items)
            for item in items:
                self._give_up(item.part, item.row)
        self.forgotten(task)

    def hurry_retries(self, now: float) -> None:
        """Start all pending retries now, as last attempts."""
        for index, (at, number, task) in enumerate(self._later):
            if task.attempts:
                task.is_last_attempt = True
                self._later[index] = (min(at, now), number, task)
        heapify(self._later)

    def freeze(self, topic: str, partition: int) -> None:
        """Start no row of a partition after the last one started, so that the finished rows will have no gap."""
        assigned = self._partitions.get((topic, partition))
        if assigned is not None and not assigned.frozen:
            assigned.frozen = True
            self._drop(assigned, assigned.begun)

    def freeze_all(self) -> None:
        """Start no row of any partition after the last one started."""
        for topic, partition in list(self._partitions):
            self.freeze(topic, partition)

    def drop_all(self) -> None:
        """Start no further row."""
        for assigned in self._partitions.values():
            assigned.frozen = True
            self._drop(assigned, -1)
        tasks = [*(task for task in self._ready if isinstance(task, Task)), *(entry[2] for entry in self._later)]
        self._ready = deque(lane for lane in self._ready if isinstance(lane, Lane))
        self._later.clear()
        for task in tasks:
            self._begun(task)
            self.forgotten(task)

    def thaw(self, frozen: Iterable[tuple[str, int]]) -> None:
        """Keep only these partitions frozen."""
        still = set(frozen)
        for partition, assigned in self._partitions.items():
            assigned.frozen = assigned.frozen and partition in still

    def unsettled(self, topic: str, partition: int) -> list[PartitionProgress]:
        """Return the parts of a partition with rows that are being handled, or will be."""
        assigned = self._partitions.get((topic, partition))
        return [] if assigned is None else [part for part in assigned.parts if not part.is_settled]

    def abandon(self, parts: Iterable[PartitionProgress]) -> None:
        """Discard the unfinished rows of these parts, although their handlers may still run."""
        for part in parts:
            self._give_up(part, part.frontier)

    def first_parts(self) -> list[PartitionProgress]:
        """Return the first unsettled part of each partition: its finished rows may be committed."""
        return [assigned.parts[0] for assigned in self._partitions.values() if assigned.parts]

    def all_parts(self) -> list[PartitionProgress]:
        """Return all unsettled parts."""
        return [part for assigned in self._partitions.values() for part in assigned.parts if not part.is_settled]

    def take_settled(self) -> list[PartitionProgress]:
        """Take the parts settled since the last call, which are to be reported to the consumer."""
        settled, self._settled = self._settled, []
        return settled

    def _lane(self, assigned: Assigned, key: bytes | None) -> Lane:
        lane = assigned.keyed.get(key)
        if lane is None:
            lane = assigned.keyed[key] = Lane(assigned, key, shared=False)
        return lane

    def _of(self, lane: Lane, limit: int) -> Task | None:
        items, taken = lane.items, list[Item]()
        # Keep to one part, since each assignment of a partition has its own.
        while items and len(taken) < limit and (not taken or items[0].part is taken[0].part):
            taken.append(items.popleft())
        if lane.shared:
            lane.is_offered = bool(items)
            if items:
                self._ready.append(lane)
        elif not taken:
            self._leave(lane)
        if not taken:
            return None
        part, row, _ = taken[-1]
        assigned = lane.partition
        assigned.begun = max(assigned.begun, part.base + row)
        return Task(lane, taken)

    def _begun(self, task: Task) -> None:
        self.waiting -= len(task.items)
        self.in_flight += len(task.items)
        task.part.in_flight += len(task.items)

    def _left(self, task: Task) -> None:
        self.in_flight -= len(task.items)
        task.part.in_flight -= len(task.items)

    def _ended(self, task: Task) -> None:
        self._left(task)
        lane = task.lane
        if lane.shared:
            return
        if lane.items:
            self._ready.append(lane)
        else:
            self._leave(lane)

    def _leave(self, lane: Lane) -> None:
        lane.is_offered = False
        del lane.partition.keyed[lane.key]

    def _drop(self, assigned: Assigned, begun: int) -> None:
        for lane in [*assigned.keyed.values(), assigned.unordered]:
            items, lane.items = lane.items, deque[Item]()
            for item in items:
                if item.part.base + item.row <= begun:
                    lane.items.append(item)
                else:
                    self.waiting -= 1
                    self._give_up(item.part, item.row)

    def _give_up(self, part: PartitionProgress, row: int) -> None:
        was_settled = part.is_settled
        part.give_up(row)
        if not was_settled and part.is_settled:
            self._settle(part)

    def _settle(self, part: PartitionProgress) -> None:
        parts = self._partitions[(part.topic, part.partition)].parts
        if part.is_complete and part in parts:
            parts.remove(part)
            self._told(part)
        # Parts are settled in order: finished rows of an incomplete part count only after all parts before it were
        # reported.
        while parts and parts[0].is_settled:
            self._told(parts.popleft())

    def _told(self, part: PartitionProgress) -> None:
        self.queued_bytes -= part.nbytes
        self._settled.append(part)
