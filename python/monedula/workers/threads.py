"""`ThreadRun`: `Consumer.run`. The caller's thread reads and runs callbacks, others call the handler."""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import Literal, Protocol

from monedula._monedula import Batch, LaneWorker, Record
from monedula._process.signals import error_to_raise, is_of_signal_handler
from monedula._process.threads import no_thread
from monedula.errors import KafkaError, TransactionAbortedError, WakeupError
from monedula.producer._send_queue import SendArguments
from monedula.producer.sync import Producer
from monedula.workers.outputs import REFUSALS, Outputs
from monedula.workers.replies import refusal
from monedula.workers.runs import (
    COMMIT_SECONDS,
    FULL_SECONDS,
    POLL_SECONDS,
    Ending,
    Run,
    RunConsumer,
    first_error,
)


class ThreadConsumer(RunConsumer, Protocol):
    """Consumer of a run with threads."""

    def _next_of_run(self, max_rows: int, max_bytes: int, wait: float, holder: int, /) -> Batch | None:
        """Return a batch for the run; an empty one, or `None`, if none came in `wait` seconds."""

    def _serve_run(self, holder: int, /) -> None:
        """Run callbacks, and tell what was decided, while the run takes no records."""

    def _commit_finished(self, holder: int, timeout: float) -> None: ...


class ThreadRun:
    """A run whose handlers are called in threads."""

    def __init__(self, consumer: ThreadConsumer, run: Run, outputs: Outputs | None) -> None:
        self._consumer = consumer
        self._run = run
        run.report = self._look_after
        self._outputs = outputs
        # Looked up in the module, since gevent and eventlet replace threads and locks there by greenlets and theirs.
        self._lock = threading.Lock()
        self._available = threading.Condition(self._lock)
        """Notified of records that may be handled, and of the end."""
        self._changed = threading.Condition(self._lock)
        """Notified when the caller's thread has work: there is room, or all is handled."""
        self._idle = 0
        self._reader_waits = False
        self._ended = False
        self._ending: Ending | None = None

    def run(self) -> None:
        """Read until the end, and wait for the handlers.

        Raises:
            Exception: an exception of a handler that is not retried, with a note; errors of reading and committing.
        """
        workers = [
            threading.Thread(target=self._work, args=(number,), name=f"monedula-worker-{number}", daemon=True)
            for number in range(self._run.plan.concurrency)
        ]
        error: BaseException | None = None
        try:
            self._begin_transactions()
            self._start(workers)
            self._read()
        except BaseException as raised:
            error = raised
        try:
            self._finish(error)
        except BaseException as raised:
            error = first_error(error, raised)
        finally:
            error = self._close(error)
        is_interrupted = error is not None and is_of_signal_handler(error)
        if self._run.failure is not None and not is_interrupted:
            raise self._run.failure
        if error is not None and not isinstance(error, WakeupError):
            raise error

    @property
    def _sender(self) -> Producer:
        assert self._outputs is not None
        assert isinstance(self._outputs.producer, Producer)
        return self._outputs.producer

    def _begin_transactions(self) -> None:
        """Take over the `transactional.id`: what a killed process left open is aborted before its records are read."""
        rounds = self._run.rounds
        if rounds is None:
            return
        sender = self._sender
        sender._end_what_was_left()
        if not sender._initialized:
            sender.init_transactions()
        rounds.rewind()

    def _commit_round(self, *, is_last: bool = False, deadline: float | None = None) -> bool:
        """Commit a transaction, if one is due. Returns false if there is nothing to commit.

        Until the deadline, a monotonic time, its outcome is waited for; `None` for as long as the settings say.
        """
        run, rounds = self._run, self._run.rounds
        if rounds is None:
            return False
        with self._lock:
            taken = run.next_round(is_last=is_last)
        if taken is None:
            return False
        try:
            with rounds.transaction(self._sender, taken, deadline):
                for each in taken.written:
                    each.send(self._sender)
        except TransactionAbortedError as error:
            with self._lock:
                rounds.aborted(error, taken)
            if is_last and deadline is not None and monotonic() >= deadline:
                raise
            return True
        except BaseException:
            rounds.is_broken = True
            raise
        rounds.committed(taken)
        return True

    def _start(self, workers: list[threading.Thread]) -> None:
        for worker in workers:
            try:
                worker.start()
            except (RuntimeError, MemoryError) as error:
                raise no_thread(worker.name, error) from error

    def _read(self) -> None:
        run, consumer = self._run, self._consumer
        heard = monotonic()
        while run.failure is None:
            # Idleness is checked before: errors held back until the last records are reported come with the next call.
            was_idle = run.lanes.is_idle()
            self._look_after()
            self._commit_round()
            room = run.lanes.room()
            if not room:
                heard = monotonic()
                self._wait("room", lambda: run.lanes.room() > 0)
                consumer._serve_run(run.holder)
                continue
            is_over = run.is_read()
            wait = 0.0 if is_over else POLL_SECONDS
            batch = consumer._next_of_run(room, run.room_bytes(), wait, run.holder)
            if batch:
                heard = monotonic()
                self._take(batch)
            elif was_idle and run.is_over(is_over, monotonic() - heard):
                consumer._check_drained(run.plan.timeout, run.bound)
                return

    def _take(self, batch: Batch) -> None:
        self._run.add(batch)
        with self._lock:
            # One for now, which wakes the next one: with quick handlers one worker does the work of all.
            self._available.notify()

    def _finish(self, error: BaseException | None) -> None:
        """Wait until the started records are finished; without an error, all records taken."""
        run = self._run
        failure: BaseException | None = None
        with self._lock:
            ending = self._ending = Ending(run, error)
        while not run.lanes.is_idle():
            with self._lock:
                if ending.is_over():
                    break
            self._look_after()
            if not ending.is_cut:
                self._commit_round(deadline=ending.commit_deadline())
            self._wait("idle", run.lanes.is_idle)
            try:
                if ending.serves:
                    self._consumer._serve_run(run.holder)
            except Exception as raised:
                if not isinstance(raised, KafkaError):
                    failure = error_to_raise(failure, raised)
                with self._lock:
                    ending.interrupted()
        if failure is not None:
            raise failure

    def _close(self, error: BaseException | None) -> BaseException | None:
        run, member = self._run, self._run.member
        with self._lock:
            self._ended = True
            self._available.notify_all()
            run.end()
        if run.bound is not None:
            run.bound.end()
        try:
            self._look_after()
            if run.rounds is None:
                member.holder_ended(run.holder)
                self._consumer._commit_finished(run.holder, self._seconds_left())
            else:
                self._end_transactions()
            if run.left_behind:
                member.rewind()
        except KafkaError as raised:
            error = first_error(error, raised)
        if self._outputs is not None and self._outputs.is_own:
            self._sender.close(self._seconds_left())
            self._outputs.forget_failures()
        return error

    def _end_transactions(self) -> None:
        """Commit what is finished, and leave the rest to the next run, which begins at what is committed."""
        try:
            ending = self._ending
            deadline = monotonic() + COMMIT_SECONDS if ending is None else ending.last_deadline()
            while self._commit_round(is_last=True, deadline=deadline):
                pass
        finally:
            self._run.tell_rest()
            self._run.member.holder_ended(self._run.holder)
            if self._sender._left == "commit":
                # Not known to be committed: the next run finds out, and only then goes back.
                self._run.left_behind = False

    def _seconds_left(self) -> float:
        return self._run.plan.grace if self._ending is None else self._ending.seconds_left()

    def _look_after(self) -> None:
        wanted = self._run.member.rebalance_wanted()
        with self._lock:
            self._run.look_after(wanted)
            if self._idle and self._run.lanes.next_due() == 0.0:
                self._available.notify()
        self._run.tell()

    def _wait(self, until: Literal["room", "idle"], is_so: Callable[[], bool]) -> None:
        with self._lock:
            self._run.lanes.set_reader_waits(until)
            if not is_so():
                self._changed.wait(FULL_SECONDS)
            self._run.lanes.set_reader_waits(None)

    def _work(self, number: int) -> None:
        lanes = self._run.lanes
        worker = lanes.worker(number)
        while True:
            self._handle_ready(worker)
            with self._lock:
                # The iterator ends also when there is work for the caller's thread.
                self._changed.notify()
                # Looked at under the lock: records that come after that notify.
                if not lanes.is_ready_for():
                    if self._ended:
                        return
                    self._idle += 1
                    self._available.wait(lanes.next_due())
                    self._idle -= 1
                if self._idle and lanes.is_ready_for(2):
                    self._available.notify()

    def _handle_ready(self, worker: LaneWorker) -> None:
        """Call the handler until there is nothing to do now."""
        handler, outputs, is_list = self._run.plan.handler, self._outputs, self._run.plan.batch_size is not None
        try:
            # Asking for the next records says that those before were handled, unless their task was ended otherwise.
            for given in worker:
                try:
                    returned = handler(given)
                    if (refused := refusal(returned)) is not None:
                        self._stop(refused, worker, given if is_list else [given])
                        continue
                    replies = [] if outputs is None else self._replies(outputs, given if is_list else [given], returned)
                except Exception as error:
                    self._failed(worker, given, error)
                except BaseException as raised:
                    self._stop(raised, worker, given if is_list else [given])
                else:
                    if replies:
                        failed = partial(self._failed, worker, given)
                        self._written(replies, worker, given if is_list else [given], failed)
        except BaseException as raised:
            # There was no memory for the records.
            self._stop(raised, worker, [])

    def _replies(self, outputs: Outputs, records: Sequence[Record], returned: object) -> list[SendArguments]:
        return [outputs.checked(self._sender._encoded(each)) for each in outputs.replies(records, returned)]

    def _written(
        self,
        written: list[SendArguments],
        worker: LaneWorker,
        records: Sequence[Record],
        refused: Callable[[Exception], None] | None = None,
    ) -> bool:
        """Write records, or leave them to the transaction of the task. Returns false if that failed.

        `refused` is called if a broker refuses a record for what it is; otherwise a failure ends the run.
        """
        outputs = self._outputs
        assert outputs is not None
        if outputs.is_transactional:
            worker.hold(written)
            return True
        try:
            for each, future in [(each, outputs.send(each)) for each in written]:
                while (error := future.exception()) is not None:
                    future = outputs.send_again(each, error)
        except BaseException as raised:
            if refused is not None and isinstance(raised, REFUSALS):
                refused(raised)
            else:
                with self._lock:
                    self._run.unwritten(raised, worker, records)
            return False
        return True

    def _failed(self, worker: LaneWorker, given: "Record | list[Record]", error: Exception) -> None:
        run, records = self._run, given if isinstance(given, list) else [given]
        try:
            said = None if run.plan.on_error is None else run.plan.on_error(given, error, worker.attempts)
            verdict = run.failures.verdict(worker.attempts, error, said)
        except BaseException as raised:
            return self._stop(raised, worker, records)
        if verdict == "dead_letter" and self._outputs is not None:
            letters = self._outputs.letters(records, error, worker.attempts)
            if not self._written(letters, worker, records):
                return None
        with self._lock:
            run.decided(verdict, error, worker, records)
        return None

    def _stop(self, error: BaseException, worker: LaneWorker, records: Sequence[Record]) -> None:
        with self._lock:
            self._run.stop(error, worker, records)
