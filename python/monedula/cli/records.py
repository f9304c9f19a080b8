"""Records that `monedula produce` sends one by one: their keys and values are bytes."""

import sys
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from monedula.cli.failures import Failure
from monedula.cli.placing import Placing
from monedula.cli.progress import Bar
from monedula.cli.running import say
from monedula.cli.sources import Headers, Line
from monedula.errors import KafkaError, KafkaTimeoutError
from monedula.producer.sync import Producer

LAST_WORDS_SECONDS = 5.0
"""Time to deliver records after Ctrl-C."""


@dataclass(frozen=True)
class Common:
    """The topic, partition, key and headers from the command line, for all records."""

    topic: str | None
    partition: int | None
    any_partition: bool
    key: Any
    headers: Headers
    placing: Placing

    def partition_of(self, line: Line, topic: str) -> int | None:
        """The partition of a record, if one is said, and its topic has it."""
        if self.partition is not None or self.any_partition or line.partition is None:
            return self.partition
        return self.placing.placed(topic, line.partition)


class Lines:
    """Sends records one by one. Stops reading when the first record fails."""

    def __init__(self, producer: Producer, bar: Bar, common: Common) -> None:
        self._producer = producer
        self._bar = bar
        self._common = common
        self._sent: deque[tuple[int, Any]] = deque()
        self._acknowledged = 0
        self._failure: Failure | None = None

    def send(self, lines: Iterable[Line]) -> None:
        """Send them all, and wait until all are acknowledged."""
        try:
            self._read(lines)
        except Failure as error:
            self._failure = error
        except KeyboardInterrupt:
            self._part()
            raise
        self._producer.flush()
        self._settle(len(self._sent))
        report(self._acknowledged, self._failure)

    def _read(self, lines: Iterable[Line]) -> None:
        passed = 0
        try:
            for line in lines:
                self._send(line)
                passed += line.size
                self._bar.at(passed)
                # Two futures are checked for each new one, so that a failure is seen soon, also with a slow input.
                self._settle(2)
                if self._failure is not None:
                    return
        finally:
            self._bar.at(passed)

    def _part(self) -> None:
        """After Ctrl-C: wait at most 5 seconds for the records that were sent, and say what is missing."""
        with suppress(KafkaTimeoutError):
            self._producer.flush(LAST_WORDS_SECONDS)
        self._settle(len(self._sent))
        if self._failure is not None or self._sent:
            missing = f"{len(self._sent)} records are not acknowledged" if self._sent else str(self._failure)
            say(f"monedula produce: stopped; {missing}")

    def _send(self, line: Line) -> None:
        common = self._common
        topic = common.topic or line.topic
        if topic is None:
            raise Failure(f"line {line.number}: where to? Give a topic on the command line, or a field topic")
        try:
            future = self._producer.send(
                topic,
                line.value,
                common.key if line.key is None else line.key,
                common.partition_of(line, topic),
                [*(line.headers or ()), *common.headers] or None,
                line.timestamp,
            )
        except KafkaError as error:
            raise Failure(f"line {line.number}: {error}", error) from None
        self._sent.append((line.number, future))
        self._bar.count(1, line.size)

    def _settle(self, most: int) -> None:
        """Remove up to `most` futures that are done from the front of the queue, and keep the first error."""
        while self._sent and most:
            number, future = self._sent[0]
            if not future.done():
                return
            self._sent.popleft()
            most -= 1
            error = future.exception()
            if error is None:
                self._acknowledged += 1
            elif self._failure is None:
                self._failure = Failure(f"line {number}: {error}", error)


def report(acknowledged: int, failure: Failure | None) -> None:
    """Say how many records were acknowledged."""
    records = "1 record was" if acknowledged == 1 else f"{acknowledged} records were"
    if failure is not None:
        raise Failure(f"{failure}; {records} acknowledged", failure.cause)
    if sys.stderr.isatty():
        say(f"{records} acknowledged")
