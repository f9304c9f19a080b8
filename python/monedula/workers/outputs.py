"""`Outputs`: where a run writes dead letters and replies: at once, or in its transactions."""

from collections.abc import Sequence

from monedula._monedula import Record, SendFuture
from monedula.errors import InvalidRecordError, RecordTooLargeError
from monedula.producer._dead_letters import DeadLetters, LetterProducer
from monedula.producer._send_queue import SendArguments
from monedula.workers.replies import replies_of

REFUSALS = (InvalidRecordError, RecordTooLargeError)
"""Errors of brokers that are about a record itself, such as one without a key for a compacted topic."""


class Outputs:
    """What a run writes for the records that it handles.

    Attributes:
        producer: the producer of dead letters and replies.
        is_own: true if the run made the producer, and closes it.
        is_transactional: true if they are written in the transactions of the run.
    """

    def __init__(
        self,
        producer: LetterProducer,
        letters: DeadLetters | None,
        reply_topic: str | None,
        *,
        is_own: bool,
        is_transactional: bool,
    ) -> None:
        self.producer = producer
        self.is_own = is_own
        self.is_transactional = is_transactional
        self._letters = letters
        self._reply_topic = reply_topic

    def replies(self, records: Sequence[Record], returned: object) -> list[SendArguments]:
        """Return what the handler of these records has returned, as records to be written."""
        if self._reply_topic is None:
            return []
        return replies_of(returned, self._reply_topic, records[0] if len(records) == 1 else None)

    def checked(self, reply: SendArguments) -> SendArguments:
        """Return a reply whose key and value are bytes, if it is a record.

        Raises:
            ArgumentError: if it is none: a failure of the handler, which may be tried again or become a dead letter.
            RecordTooLargeError: likewise, if it is larger than `max.request.size`.
        """
        self.producer._check_record(*reply)
        return reply

    def letters(self, records: Sequence[Record], error: BaseException, attempts: int) -> list[SendArguments]:
        """Return the dead letters of records that are given up after so many attempts."""
        letters = self._letters
        return [] if letters is None else [letters.letter(record, error, attempts) for record in records]

    def send(self, written: SendArguments) -> SendFuture:
        """Send a record whose key and value are bytes. It counts as written once the future has succeeded."""
        return self.producer._send_or_queue(*written, None)

    def send_again(self, written: SendArguments, error: BaseException) -> SendFuture:
        """Send a record again that was refused only because of others in its batch (KIP-467).

        Raises:
            BaseException: `error`, if that is not the reason.
        """
        if isinstance(error, InvalidRecordError) and error.retriable:
            return self.send(written)
        raise error

    def forget_failures(self) -> None:
        """Keep the producer from reporting failed records: the run has raised or logged the outcome."""
        self.producer._unseen_failures()
