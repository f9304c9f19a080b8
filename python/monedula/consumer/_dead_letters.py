"""Records that cannot be decoded and have a dead-letter topic: they are written before their batch is returned."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import Self, cast

from monedula._monedula import Batch, ConsumerCore, MemberCore, PendingCallback, Record, SendFuture
from monedula.config import RawSettings
from monedula.errors import BufferFullError, DecodeError, KafkaError, KafkaTimeoutError
from monedula.formats._typed import Typed
from monedula.producer._dead_letters import DeadLetters, LetterProducer, producer_settings
from monedula.types.partitions import TopicPartition

SLICE_SECONDS = 0.05
"""Time that a loop waits for records before it looks again for its end."""


class Letter:
    """A record that cannot be decoded.

    Attributes:
        index: its number among the batch's records that cannot be decoded.
        record: the record, with its bytes.
        error: why it cannot be decoded.
        future: what becomes of its dead letter; `None` if it is not sent, or failed and is to be sent again.
        failure: why it was not written; `None` once a call has raised it.
    """

    def __init__(self, index: int, record: Record, error: DecodeError) -> None:
        self.index = index
        self.record = record
        self.error = error
        self.future: SendFuture | None = None
        self.failure: KafkaError | None = None

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition(cast("str", self.record.topic), cast("int", self.record.partition))

    def fail(self, failure: KafkaError, note: str) -> None:
        """Keep the reason why it was not written. All rows before the record are returned before that is raised."""
        failure.add_note(f"{note}; to go on without it, seek() that partition to {self.error.next_offset}")
        self.future, self.failure = None, failure

    def advice(self) -> str:
        return (
            f"this is about the dead letter of {self.record.topic} [{self.record.partition}] at offset "
            f"{self.record.offset}, which the next call writes again"
        )


class WaitingBatch:
    """A batch that is returned once its dead letters are acknowledged.

    Attributes:
        batch: the batch, or what is left of it.
        letters: its records that cannot be decoded. Those that need not be waited for any more are not among them.
    """

    def __init__(self, batch: Batch) -> None:
        refused = batch._refused()
        assert refused is not None
        rows, causes = refused
        self.batch = batch
        self.letters = deque(
            Letter(index, record, _decode_error(record, *cause))
            for index, (record, cause) in enumerate(zip(rows.records(), causes, strict=True))
        )

    def forget(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Write no dead letters of partitions whose rows will never be returned."""
        gone = {TopicPartition(*partition) for partition in partitions}
        if gone:
            self.letters = deque(letter for letter in self.letters if letter.partition not in gone)

    def pending(self) -> SendFuture | None:
        """Forget the letters at the front that are acknowledged.

        Returns:
            The acknowledgement of the first letter that is left; `None` if it failed, or is not sent for want of room.
        """
        while self.letters:
            letter = self.letters[0]
            future = letter.future
            if future is None or not future.done():
                return future
            failure = future.exception()
            if failure is not None:
                letter.fail(failure, letter.advice())
                return None
            self.letters.popleft()
        return None

    def failure(self) -> KafkaError | None:
        """Why the first letter was not written, if it was not."""
        return self.letters[0].failure if self.letters else None

    def forget_failures(self) -> None:
        """Have the letters that failed sent again."""
        for letter in self.letters:
            letter.failure = None
            if letter.future is not None and letter.future.done() and letter.future.exception() is not None:
                letter.future = None

    def unwritten(self) -> Iterator[int]:
        """The indices of the letters that are not known to be written."""
        for letter in self.letters:
            future = letter.future
            if future is None or not future.done() or future.exception() is not None:
                yield letter.index


class LettersWait:
    """The wait of one call for the dead letters of a batch, in slices: the caller waits for `future` while `goes_on()`.

    As any other wait it heeds `wakeup()`, `close()` and rebalances. Left early, by an error, Ctrl-C or a cancellation
    too, it leaves the batch to the next call. Until then no rebalance waits for the batch.

    Args:
        refused: where the letters go.
        waiting: the batch.
        timeout: seconds after which the call ends; `None` for as long as it takes.
        holder: the holder number that the batch is for; that of the current thread if `None`.

    Attributes:
        future: the acknowledgement to be waited for; `None` if the producer has no room for a letter: others wait for
            the letters that fill it.
        slice_seconds: how long to wait for it before the next look.
        outcome: what the call returns, once it does not go on: the batch; an empty one after `timeout`; a callback that
            must run first; `None` if no row of the batch is to be returned, or rows before a letter that failed are, by
            the core.
    """

    def __init__(
        self, refused: "RefusedRecords", waiting: WaitingBatch, timeout: float | None, holder: int | None
    ) -> None:
        self._refused = refused
        self._core, self._member = refused.core, refused.member
        self._waiting = waiting
        self._holder = holder
        self._until = None if timeout is None else monotonic() + timeout
        self._is_done = False
        self.future: SendFuture | None = None
        self.slice_seconds = 0.0
        self.outcome: Batch | PendingCallback | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_done:
            self._refused.put_back(self._waiting)
            self._member.abandon(self._waiting.batch)

    def goes_on(self) -> bool:
        """Do what is due, and say whether a letter is still to be waited for."""
        core, waiting = self._core, self._waiting
        self.outcome = core.poll_callbacks(0.0, self._holder)
        if self.outcome is not None:
            return False
        waiting.forget(core.revoked_partitions(waiting.batch))
        self._refused.send(waiting)
        self.future = waiting.pending()
        failure = waiting.failure()
        if failure is not None:
            rest = core.give_back_before(waiting.batch, list(waiting.unwritten()), self._holder)
            if rest is None:
                waiting.forget_failures()
                raise failure
            waiting.batch = rest
            return False
        if not waiting.letters:
            self._is_done = True
            is_wanted = core.claim(waiting.batch, self._holder) and bool(waiting.batch)
            self.outcome = waiting.batch if is_wanted else None
            return False
        self.slice_seconds = SLICE_SECONDS if self._until is None else min(SLICE_SECONDS, self._until - monotonic())
        if self.slice_seconds <= 0:
            self.outcome = core.empty()
            return False
        return True


class RefusedRecords:
    """Dead letters of a consumer: records that cannot be decoded. The first of them has the producer opened."""

    def __init__(
        self,
        core: ConsumerCore,
        member: MemberCore,
        settings: RawSettings,
        open_producer: Callable[[RawSettings], LetterProducer],
        key: Typed | None,
        value: Typed | None,
    ) -> None:
        self.core = core
        self.member = member
        self._settings = settings
        self._open_producer = open_producer
        given = {"key": key, "value": value}
        self.decodes = key is not None or value is not None
        self._topics = {name: spec.dead_letter for name, spec in given.items() if spec is not None and spec.dead_letter}
        self._group = next((value for key, value in settings if key.replace("_", ".") == "group.id"), "")
        self.producer: LetterProducer | None = None
        # Batches of no thread or task: whoever calls next goes on with them. The ends of a deque are safe for threads.
        self._waiting: deque[WaitingBatch] = deque()

    def take(self) -> WaitingBatch | None:
        """The first batch whose call ended before its dead letters were acknowledged; not while rows go before it."""
        if self._waiting and self.core.has_returned():
            return None
        try:
            return self._waiting.popleft()
        except IndexError:
            return None

    def wait(self, waiting: WaitingBatch, timeout: float | None, holder: int | None) -> LettersWait:
        """Wait for the dead letters of a batch; the arguments of `LettersWait`."""
        return LettersWait(self, waiting, timeout, holder)

    def put_back(self, waiting: WaitingBatch) -> None:
        self._waiting.appendleft(waiting)

    def is_waiting(self) -> bool:
        """Return true if a batch waits for its dead letters while no call in progress waits with it."""
        return bool(self._waiting)

    def check_written(self, timeout: float) -> None:
        """Raise if a batch waits for its dead letters, and a loop ends without a record for `timeout` seconds."""
        producer = self.producer
        if producer is None or not self.is_waiting():
            return
        last_error: str | None = producer._health()["last_error"]
        because = "" if last_error is None else f"; the last failure: {last_error}"
        raise KafkaTimeoutError(
            f"no record came for {timeout:g} s, and dead letters wait for their brokers; the next call waits on, and "
            f"then returns the rows beside them{because}",
            last_error=last_error,
        )

    def clear(self) -> None:
        """Return no such batch any more; their offsets are not committed."""
        self._waiting.clear()

    def forget_failures(self) -> None:
        """Have the producer tell of no letter that was not written: its batch was not returned, and comes again."""
        if self.producer is not None:
            self.producer._unseen_failures()

    def send(self, waiting: WaitingBatch) -> None:
        """Send the dead letters of a batch that are not under way, as many as the producer has room for.

        It does not wait for room: those that are under way give it back. A letter of a record of the dead-letter topic
        itself fails: written there again, it would come again.
        """
        for letter in waiting.letters:
            if letter.future is not None or letter.failure is not None:
                continue
            topic = self._topics[letter.error.column]
            if topic == letter.record.topic:
                letter.error.__notes__ = []
                letter.fail(
                    letter.error, f"{topic} is the topic of dead letters, so the record is not written there again"
                )
                continue
            letters = DeadLetters(self._open(), topic, self._group)
            try:
                letter.future = letters.send_if_room(letter.record, letter.error, attempts=1)
            except BufferFullError:
                return
            except KafkaError as failure:
                letter.fail(failure, letter.advice())

    def _open(self) -> LetterProducer:
        if self.producer is None:
            self.producer = self._open_producer(producer_settings(self._settings))
        return self.producer


def _decode_error(record: Record, column: str, path: str, reason: str) -> DecodeError:
    where = f"{record.topic} [{record.partition}] at offset {record.offset}"
    fault = f"{path}: {reason}" if path else reason
    return DecodeError(
        f"{where}: the {column} cannot be decoded: {fault}",
        topic=cast("str", record.topic),
        partition=cast("int", record.partition),
        offset=cast("int", record.offset),
        next_offset=cast("int", record.offset) + 1,
        column=column,
        path=path,
        reason=reason,
    )
