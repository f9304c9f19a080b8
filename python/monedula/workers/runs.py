"""`Run`: the common part of runs with threads and runs with tasks. Nothing here waits.

Which rows are finished, and so may be committed, is counted in `progress.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import Protocol

from monedula._logging import error_of_user, warn
from monedula._monedula import Batch, ConsumerCore, MemberCore, new_holder
from monedula._process.signals import error_to_raise
from monedula.errors import ArgumentError, ClosedError, WakeupError
from monedula.producer._send_queue import SendArguments
from monedula.types.partitions import TopicPartition
from monedula.workers.failures import Failures, Verdict, annotate
from monedula.workers.lanes import Lanes, Task
from monedula.workers.plans import Plan
from monedula.workers.progress import PartitionProgress
from monedula.workers.transactions import Round, Rounds

BYTES_AT_ONCE = 32 << 20
"""Limit on the bytes taken from the consumer at once."""

ROWS_AT_ONCE = 1_000
"""Limit on the rows taken from the consumer at once: a part stays in memory until its last row is finished."""

POLL_SECONDS = 0.1
"""Time that the consumer waits for records before the run handles rebalances and finished records."""

FULL_SECONDS = 0.05
"""Time that a run with enough records waits before it runs callbacks."""

LEASE_SECONDS = 0.05
"""Delay of a record that arrived after the lease was over."""


COMMIT_SECONDS = 5.0
"""Time for the last commit if handlers have used up the grace, and after Ctrl-C or a cancellation."""


class Figures:
    """Counters of the runs of a consumer."""

    def __init__(self) -> None:
        self.handled = 0
        self.retries = 0
        self.dead_letters = 0
        self.skipped = 0
        self.abandoned = 0

    def by_name(self) -> dict[str, float]:
        """Return the counters, by their names in `metrics()`."""
        return {f"run_{name}": float(value) for name, value in vars(self).items()}


class Bound(Protocol):
    """End of a run with `until`."""

    def reached(self) -> bool:
        """Return true if everything is read."""

    def end(self) -> None:
        """Remove the bound: read on without an end."""


class RunConsumer(Protocol):
    """Consumer of a run, synchronous or for asyncio."""

    _core: ConsumerCore
    _member: MemberCore

    def _check_drained(self, timeout: float | None, bound: Bound | None = None) -> None: ...
    def _tell_events(self) -> None: ...
    def rewind(self) -> None:
        """Go back to the committed offsets."""


class Run:
    """One call of `run`."""

    def __init__(
        self, core: ConsumerCore, member: MemberCore, plan: Plan, bound: Bound | None, figures: Figures | None
    ) -> None:
        self.plan = plan
        self.lanes = Lanes(plan.order)
        self.rounds = None if plan.transaction is None else Rounds(plan.commit_interval, plan.grace)
        """What the transactions of the run have; `None` in a run without."""
        self.failures = Failures(plan.retry, plan.dead_letter is not None)
        self.figures = figures or Figures()
        self.is_under_way = True
        self.failure: BaseException | None = None
        """Error that ends the run: raised by a handler, or by the writing of a dead letter."""
        self._unwritten: BaseException | None = None
        """Copy of `failure` if the writing of a dead letter caused it."""
        self.bound = bound
        # Make the run the holder of its batches, not a thread or task: batches that it holds when it ends are read
        # again.
        self.holder = new_holder()
        self.limit = 1 if plan.batch_size is None else plan.batch_size
        self.since: dict[int, float] = {}
        """Start time of each running handler, by the number of its worker."""
        self.is_ending = False
        """True once the run was woken up: a record whose handler fails gets only one more attempt, at once."""
        self.report: Callable[[], None] = self._report
        """Reports the progress to the consumer. Also called by a `close` in another thread or in a handler."""
        self.has_ended = False
        """True once no handler is waited for any longer: later results are ignored."""
        self.left_behind = False
        """True if rows were given up that this consumer may still own."""
        self._core = core
        self._member = member
        self._wanted_since: dict[tuple[str, int], float] = {}

    def gauges(self) -> dict[str, float]:
        """Return the current figures."""
        since = min(list(self.since.values()), default=None)
        return {
            "run_in_flight": self.lanes.in_flight,
            "run_waiting": self.lanes.waiting,
            "run_waiting_bytes": self.lanes.queued_bytes,
            "run_oldest_seconds": 0.0 if since is None else monotonic() - since,
        }

    def room(self) -> int:
        """Return how many rows may be taken now; 0 until a quarter of the queue is free."""
        plan, lanes = self.plan, self.lanes
        free = plan.max_queued_records - lanes.waiting - lanes.in_flight
        if self.rounds is not None:
            free -= self.rounds.uncommitted()
        if free * 4 < plan.max_queued_records or lanes.queued_bytes >= plan.max_queued_bytes:
            return 0
        return min(free, ROWS_AT_ONCE)

    def room_bytes(self) -> int:
        """Return how many bytes may be taken at once."""
        return max(min(self.plan.max_queued_bytes - self.lanes.queued_bytes, BYTES_AT_ONCE), 1)

    def parts(self, batch: Batch) -> Iterator[PartitionProgress]:
        """Yield the parts of a batch. Add each to the lanes before taking the next one."""
        for part in self._member.hand_over(batch, self.holder):
            (span,) = part.spans
            base = self.lanes.assigned(span.topic, span.partition).rows
            progress = PartitionProgress(part, self._member.work_gate(part), base)
            if self.rounds is not None:
                self.rounds.add(progress)
            yield progress

    def is_read(self) -> bool:
        """Return true if `until` is reached and all is handled: a partition that is lost before that is read again."""
        # Call `reached` in any case: it has the bounds of new partitions looked up.
        return self.bound is not None and self.bound.reached() and self.is_idle()

    def is_over(self, was_reached: bool, quiet_seconds: float) -> bool:
        """Return true if reading ends, after a wait without records.

        Args:
            was_reached: the result of `is_read` before that wait.
            quiet_seconds: the time since the last record.
        """
        if was_reached and self.is_read():
            return True
        return self.plan.timeout is not None and quiet_seconds >= self.plan.timeout and self.is_idle()

    def is_idle(self) -> bool:
        """Return true if no record waits and no handler runs."""
        return not self.lanes.waiting and not self.lanes.in_flight

    def look_after(self, wanted: list[tuple[str, int]]) -> list[PartitionProgress]:
        """Give up what a rebalance takes away. Returns the parts to report to the consumer, by `tell`."""
        now = monotonic()
        if wanted or self._wanted_since:
            self.lanes.thaw(wanted)
            self._wanted_since = {partition: self._wanted_since.get(partition, now) for partition in wanted}
        for (topic, partition), since in self._wanted_since.items():
            self.lanes.freeze(topic, partition)
            late = self.lanes.unsettled(topic, partition) if now - since > self.plan.grace else []
            if late:
                self.give_up(late, f"the rebalance that takes {topic}-{partition} has waited for {self.plan.grace} s")
        settled = self.lanes.take_settled()
        return [*settled, *self.lanes.first_parts()] if self.rounds is None else self.rounds.settled()

    def tell(self, parts: list[PartitionProgress]) -> None:
        """Report the progress on the parts to the consumer."""
        for part in parts:
            if part.is_settled or self.rounds is not None:
                self.left_behind = self.left_behind or part.is_left_behind
                part.abandon(self._member)
            else:
                part.report(self._member)

    def _report(self) -> None:
        self.tell(self.look_after(self._member.rebalance_wanted()))

    def give_up(self, parts: list[PartitionProgress], reason: str) -> None:
        """Abandon parts that took too long, and warn."""
        places = ", ".join(f"{part.topic}-{part.partition}" for part in parts)
        self.lanes.abandon(parts)
        self.figures.abandoned += len(parts)
        warn(
            "workers",
            f"{reason}: records of {places} stay uncommitted, and are handled again",
        )

    def take(self) -> Task | None:
        """Take the next records to handle; `None` if there is nothing to do now, or the run has failed."""
        return None if self.failure is not None else self.lanes.take(self.limit, monotonic())

    def end_gracefully(self) -> None:
        """Start nothing after the last record started. Pending retries get their last attempt now.

        Later records that have finished are handled again only if that fails, too.
        """
        self.is_ending = True
        self.lanes.freeze_all()
        self.lanes.hurry_retries(monotonic())

    def end(self) -> bool:
        """Start nothing more, and wait for no handler any longer. Returns true if some still run."""
        self.has_ended = True
        self.lanes.drop_all()
        late = self.lanes.all_parts()
        if late:
            self.give_up(
                late,
                f"handlers still run at the end of run(), which waits for them for at most grace={self.plan.grace:g} s",
            )
        return bool(late)

    def handled(self, task: Task, written: Sequence[SendArguments] = ()) -> None:
        """Record that the handler has succeeded.

        Args:
            task: the records.
            written: replies that the transaction of the records is to have.
        """
        self.figures.handled += len(task.items)
        self._done(task, written)

    def decided(self, verdict: Verdict, error: Exception, task: Task, written: Sequence[SendArguments] = ()) -> None:
        """Apply the verdict on a failed handler; a dead letter has been written by now, or is `written` as a reply."""
        if verdict == "stop":
            self.stop(error, task)
        elif verdict == "retry" and task.is_last_attempt:
            # Further attempts would delay the end. The record is not committed, so it is read again.
            self.lanes.leave_out(task)
        elif verdict == "retry":
            self.figures.retries += 1
            task.is_last_attempt = self.is_ending
            self.lanes.again(task, monotonic() + (0.0 if self.is_ending else self.failures.retry.delay(task.attempts)))
        elif verdict == "skip":
            self.figures.skipped += len(task.items)
            self._done(task)
        else:
            self.figures.dead_letters += len(task.items)
            self._done(task, written)

    def unwritten(self, error: BaseException, task: Task) -> None:
        """End the run because a dead letter of these records cannot be written.

        Other handlers that give up a record then likely fail for the same reason, which is logged once.
        """
        if self.failure is not None and self.failure is self._unwritten and _is_same(error, self.failure):
            self.lanes.forgotten(task)
            return
        is_first = self.failure is None
        self.stop(error, task)
        self._unwritten = error if is_first else self._unwritten

    def _done(self, task: Task, written: Sequence[SendArguments] = ()) -> None:
        # Handlers that return after the end were reported as handled again.
        if self.has_ended:
            self.lanes.forgotten(task)
            return
        if self.rounds is not None:
            task.part.hold([item.row for item in task.items], [*written])
        self.lanes.done(task)

    def next_round(self, *, is_last: bool = False) -> Round | None:
        """Return what the next transaction has, if one is due."""
        rounds = self.rounds
        if rounds is None or rounds.is_broken or not rounds.is_due(is_urgent=is_last or bool(self._wanted_since)):
            return None
        return rounds.take(self._position_of, is_last=is_last)

    def _position_of(self, place: TopicPartition) -> int | None:
        try:
            position: int | None = self._core.status(place)["position"]
        except ArgumentError:
            return None  # it was revoked just now
        return position

    def fail(self, error: BaseException) -> None:
        """End the run because of this error."""
        self.failure = error
        # Dropped at once, before the reader notices: records after a failed one, also of its key, must not start.
        self.lanes.drop_all()

    def stop(self, error: BaseException, task: Task) -> None:
        """End the run because of an error about these records. Only the first error is raised.

        A run that has ended does not fail any more: its dead-letter producer is closed by then, and records whose
        handler still ran are read again.
        """
        self.lanes.forgotten(task)
        annotate(error, task)
        if self.has_ended:
            if not isinstance(error, ClosedError):
                error_of_user("workers", "a handler raised after the run had ended", error)
        elif self.failure is None:
            self.fail(error)
        else:
            error_of_user("workers", "another handler raised while the run ended", error)


def _is_same(error: BaseException, other: BaseException) -> bool:
    return type(error) is type(other) and getattr(error, "code", None) == getattr(other, "code", None)


class Ending:
    """Waiting at the end of a run for the started records; without an error, for all records taken."""

    def __init__(self, run: Run, error: BaseException | None) -> None:
        self.serves = error is None or isinstance(error, WakeupError)
        """True if rebalance callbacks are called meanwhile."""
        self._run = run
        self.is_cut = error is not None and not isinstance(error, Exception)
        """True if Ctrl-C or a cancelled task ends the run: whoever did that expects a quick end."""
        self._deadline: float | None = None
        if error is not None or run.failure is not None:
            self._set_deadline()
            # Records before a finished one are handled too, so that the finished one need not be handled again.
            is_graceful = isinstance(error, Exception) and run.failure is None
            run.end_gracefully() if is_graceful else run.lanes.drop_all()

    def is_over(self) -> bool:
        """Return true if the grace is over. A handler that failed meanwhile ends the wait for records not started."""
        run = self._run
        if run.failure is not None and run.lanes.waiting:
            self._begin_nothing()
        return self._deadline is not None and monotonic() > self._deadline

    def seconds_left(self) -> float:
        """Return the time for the last commit, and for closing the dead-letter producer after it."""
        grace = self._run.plan.grace
        least = min(grace, COMMIT_SECONDS)
        if self._deadline is None:
            return grace
        return least if self.is_cut else max(self._deadline - monotonic(), least)

    def commit_deadline(self) -> float | None:
        """Return when to wait for no transaction any longer; `None` if the run ends once everything is handled."""
        return None if self._deadline is None else self._deadline + COMMIT_SECONDS

    def last_deadline(self) -> float:
        """Return when to wait for the last transaction no longer."""
        if self.is_cut:
            return monotonic() + COMMIT_SECONDS
        return self.commit_deadline() or monotonic() + max(self._run.plan.grace, COMMIT_SECONDS)

    def interrupted(self) -> None:
        """Start nothing more and call no callbacks, since the consumer was woken up again, or closed elsewhere."""
        self._begin_nothing()
        self.serves = False

    def _begin_nothing(self) -> None:
        self._run.lanes.drop_all()
        self._set_deadline()

    def _set_deadline(self) -> None:
        self._deadline = self._deadline or monotonic() + self._run.plan.grace


def first_error(error: BaseException | None, raised: BaseException) -> BaseException:
    """Choose the error with which a run ends: the first one. Wakeups do not count: they have only ended the wait."""
    return raised if isinstance(error, WakeupError) else error_to_raise(error, raised)
