"""`Run`: the common part of runs with threads and runs with tasks. Nothing here waits.

Which records may be handled, and which are finished and so may be committed, is decided by `Lanes`, in the core.
"""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Protocol

from monedula._logging import error_of_user, warn
from monedula._monedula import Batch, Lanes, LaneWorker, MemberCore, Record, ShareConsumerCore, new_holder
from monedula._process.signals import error_to_raise
from monedula.errors import ClosedError, WakeupError
from monedula.workers.failures import Failures, Verdict, annotate
from monedula.workers.plans import Plan
from monedula.workers.transactions import Round, RoundConsumer, Rounds

BYTES_AT_ONCE = 32 << 20
"""Limit on the bytes taken from the consumer at once."""

ROWS_AT_ONCE = 1_000
"""Limit on the rows taken from the consumer at once: a part stays in memory until its last row is finished."""

POLL_SECONDS = 0.1
"""Time that the consumer waits for records before the run handles rebalances and finished records."""

FULL_SECONDS = 0.05
"""Time that a run with enough records waits before it runs callbacks."""


COMMIT_SECONDS = 5.0
"""Time for the last commit if handlers have used up the grace, and after Ctrl-C or a cancellation."""

Member = MemberCore | ShareConsumerCore
"""The membership of a consumer in its group, or in its share group."""


class Figures:
    """Counters of the runs of a consumer; `handled` is that of the runs before, since the lanes of a run count it.

    Those of a share group's consumer have `released` and `rejected`, too.
    """

    released: int
    rejected: int

    def __init__(self, *, of_share_group: bool) -> None:
        self.handled = 0
        self.retries = 0
        self.dead_letters = 0
        self.skipped = 0
        self.abandoned = 0
        if of_share_group:
            self.released = self.rejected = 0


class Bound(Protocol):
    """End of a run with `until`."""

    def reached(self) -> bool:
        """Return true if everything is read."""

    def end(self) -> None:
        """Remove the bound: read on without an end."""


class RunConsumer(Protocol):
    """Consumer of a run, synchronous or for asyncio."""

    def _check_drained(self, timeout: float | None, bound: Bound | None, /) -> None: ...


class Run:
    """One call of `run`."""

    def __init__(
        self,
        member: Member,
        plan: Plan,
        bound: Bound | None,
        figures: Figures | None,
        transacts: RoundConsumer | None = None,
    ) -> None:
        self.plan = plan
        self.member = member
        self.is_of_share_group = isinstance(member, ShareConsumerCore)
        self.lanes = Lanes(
            plan.order,
            plan.batch_size,
            max_rows=plan.max_queued_records,
            max_bytes=plan.max_queued_bytes,
            rows_at_once=ROWS_AT_ONCE,
            is_transactional=transacts is not None,
        )
        self.rounds = None if transacts is None else Rounds(transacts, self.lanes, plan.commit_interval, plan.grace)
        """What the transactions of the run have; `None` in a run without."""
        self.failures = Failures(
            plan.retry, has_dead_letters=plan.dead_letter is not None, releases=self.is_of_share_group
        )
        self.figures = figures or Figures(of_share_group=self.is_of_share_group)
        self.is_under_way = True
        self.failure: BaseException | None = None
        """Error that ends the run: raised by a handler, or by the writing of a dead letter."""
        self._unwritten: BaseException | None = None
        """Copy of `failure` if the writing of a dead letter caused it."""
        self.bound = bound
        # Make the run the holder of its batches, not a thread or task: batches that it holds when it ends are read
        # again.
        self.holder = new_holder()
        self.report: Callable[[], None] = self._report
        """Reports the progress to the consumer. Also called by a `close` in another thread or in a handler."""
        self.has_ended = False
        """True once no handler is waited for any longer: later results are ignored."""
        self.left_behind = False
        """True if rows were given up that this consumer may still own."""
        self._wanted_since: dict[tuple[str, int], float] = {}

    def metrics(self) -> dict[str, float]:
        """Return the counters of all runs of the consumer, and the current figures, by their names in `metrics()`."""
        lanes = self.lanes
        counters = vars(self.figures) | {"handled": self.figures.handled + lanes.handled}
        return {
            **{f"run_{name}": float(value) for name, value in counters.items()},
            "run_in_flight": lanes.in_flight,
            "run_waiting": lanes.waiting,
            "run_waiting_bytes": lanes.queued_bytes,
            "run_oldest_seconds": lanes.oldest_seconds,
        }

    def all_figures(self) -> Figures:
        """Return the counters, which the next run of the consumer continues."""
        self.figures.handled += self.lanes.handled
        return self.figures

    def room_bytes(self) -> int:
        """Return how many bytes may be taken at once."""
        return max(min(self.plan.max_queued_bytes - self.lanes.queued_bytes, BYTES_AT_ONCE), 1)

    def add(self, batch: Batch) -> int:
        """Add a batch of the run's holder. Returns how many more handlers can begin because of it."""
        return self.lanes.add(self.member, batch, self.holder)

    def is_read(self) -> bool:
        """Return true if `until` is reached and all is handled: a partition that is lost before that is read again."""
        # Call `reached` in any case: it has the bounds of new partitions looked up.
        return self.bound is not None and self.bound.reached() and self.lanes.is_idle()

    def is_over(self, was_reached: bool, quiet_seconds: float) -> bool:
        """Return true if reading ends, after a wait without records.

        Args:
            was_reached: the result of `is_read` before that wait.
            quiet_seconds: the time since the last record.
        """
        if was_reached and self.is_read():
            return True
        return self.plan.timeout is not None and quiet_seconds >= self.plan.timeout and self.lanes.is_idle()

    def look_after(self, wanted: list[tuple[str, int]]) -> None:
        """Give up what a rebalance takes away."""
        now = monotonic()
        if wanted or self._wanted_since:
            self.lanes.thaw(wanted)
            self._wanted_since = {partition: self._wanted_since.get(partition, now) for partition in wanted}
        for partition, since in self._wanted_since.items():
            self.lanes.freeze(partition)
            late = self.lanes.abandon(partition) if now - since > self.plan.grace else 0
            if late:
                topic, index = partition
                reason = f"the rebalance that takes {topic}-{index} has waited for {self.plan.grace} s"
                self._given_up([partition] * late, reason)

    def tell(self) -> None:
        """Report the progress to the consumer."""
        if self.lanes.report(self.member):
            self.left_behind = True
            if self.rounds is not None:
                self.rounds.forget_aborts()

    def tell_rest(self) -> None:
        """Report to the consumer what a run with transactions has committed: it ends."""
        self.tell()
        self.left_behind = self.lanes.report_rest(self.member) or self.left_behind

    def _report(self) -> None:
        self.look_after(self.member.rebalance_wanted())
        self.tell()

    def _given_up(self, late: list[tuple[str, int]], reason: str) -> None:
        places = ", ".join(f"{topic}-{partition}" for topic, partition in dict.fromkeys(late))
        self.figures.abandoned += len(late)
        what = "are released" if self.is_of_share_group else "stay uncommitted"
        warn("workers", f"{reason}: records of {places} {what}, and are handled again")

    def end(self) -> bool:
        """Start nothing more, and wait for no handler any longer. Returns true if some still run."""
        self.has_ended = True
        late = self.lanes.end()
        if late:
            self._given_up(
                late,
                f"handlers still run at the end of run(), which waits for them for at most grace={self.plan.grace:g} s",
            )
        return bool(late)

    def decided(self, verdict: Verdict, error: Exception, worker: LaneWorker, records: Sequence[Record]) -> None:
        """Apply the verdict on a failed handler; a dead letter has been written, or is held for a transaction."""
        if verdict == "stop":
            self.stop(error, worker, records)
        elif verdict == "retry":
            self.figures.retries += worker.retry(self.failures.retry.delay(worker.attempts))
        elif verdict == "skip":
            self.figures.skipped += len(records)
            worker.finish()
        elif verdict == "release":
            annotate(error, worker, records[0].offset if records else None)
            self.figures.released += worker.finish("release")
            if self.plan.on_error is None:
                # Nobody else hears of it before the broker gives the records up.
                error_of_user("workers", "a handler raised, and its records are released", error)
        elif verdict == "reject":
            self.figures.rejected += worker.finish("reject")
        else:
            self.figures.dead_letters += len(records)
            worker.finish()

    def unwritten(self, error: BaseException, worker: LaneWorker, records: Sequence[Record]) -> None:
        """End the run because a dead letter of these records cannot be written.

        Other handlers that give up a record then likely fail for the same reason, which is logged once.
        """
        if self.failure is not None and self.failure is self._unwritten and _is_same(error, self.failure):
            worker.forget()
            return
        is_first = self.failure is None
        self.stop(error, worker, records)
        self._unwritten = error if is_first else self._unwritten

    def next_round(self, *, is_last: bool = False) -> Round | None:
        """Return what the next transaction has, if one is due."""
        rounds = self.rounds
        if rounds is None or rounds.is_broken or not rounds.is_due(is_urgent=is_last or bool(self._wanted_since)):
            return None
        return rounds.take(is_last=is_last)

    def fail(self, error: BaseException) -> None:
        """End the run because of this error."""
        self.failure = error
        # At once, before the reader notices: records after a failed one, also of its key, must not start.
        self.lanes.fail()

    def stop(self, error: BaseException, worker: LaneWorker, records: Sequence[Record]) -> None:
        """End the run because of an error about these records. Only the first error is raised.

        A run that has ended does not fail any more: its dead-letter producer is closed by then, and records whose
        handler still ran are read again.
        """
        annotate(error, worker, records[0].offset if records else None)
        worker.forget()
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
            run.lanes.end_gracefully() if is_graceful else run.lanes.drop_all()

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
