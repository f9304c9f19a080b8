"""`Outputs`: where a run writes dead letters and replies: at once, or in its transactions."""

from collections.abc import Callable, Sequence

from monedula._monedula import Record, SendFuture
from monedula.config import RawSettings
from monedula.errors import InvalidRecordError, RecordTooLargeError
from monedula.producer._dead_letters import DeadLetters, LetterProducer, producer_settings
from monedula.producer._send_queue import SendArguments
from monedula.workers.plans import Plan
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
        """Return the dead letters of records that are given up.

        `attempts` is how often they were tried here; records with the broker's count of deliveries have that in place.
        """
        letters = self._letters
        if letters is None:
            return []
        return [letters.letter(record, error, record.delivery_count or attempts) for record in records]

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


def outputs_of(
    plan: Plan, settings: RawSettings, group: str, open_producer: Callable[[RawSettings], LetterProducer]
) -> Outputs | None:
    """Return where a run writes; `None` if it writes nothing.

    Args:
        plan: its plan.
        settings: the settings of its consumer, of which a producer of its own has those of the connection.
        group: the group of its consumer.
        open_producer: makes that producer.
    """
    if plan.dead_letter is None and plan.reply_topic is None:
        return None
    given = plan.transaction or plan.producer
    producer = given or open_producer(producer_settings(settings))
    letters = None if plan.dead_letter is None else DeadLetters(producer, plan.dead_letter, group)
    is_transactional = plan.transaction is not None
    return Outputs(producer, letters, plan.reply_topic, is_own=given is None, is_transactional=is_transactional)
