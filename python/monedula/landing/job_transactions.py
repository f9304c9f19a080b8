"""`JobTransactions`: the application transactions of a landing job in a table of Delta, at the version of a handle.

deltalake reads the log for each one that it is asked for: of 1,000 partitions 0.7 s from a local disk. So it is asked
once, and later values are taken from the entries that the job's commits have in the history: both are of one commit.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from monedula.types.partitions import TopicPartition

JOB_KEY = "monedula.job"
RANGES_KEY = "monedula.ranges"


class JobTransactions:
    """What is known of a job's transactions.

    Args:
        job: its name.
        application_of: the id of a partition's transaction.
    """

    def __init__(self, job: str, application_of: Callable[[TopicPartition], str]) -> None:
        self._job = job
        self._application_of = application_of
        self._known: dict[str, int] = {}
        self._version: int | None = None

    def of(self, table: Any, application: str) -> int | None:
        """The value of a transaction; `None` if there is none."""
        if table.version() != self._version:
            self._known, self._version = {}, table.version()
        if application not in self._known:
            found: int | None = table.transaction_version(application)
            if found is None:
                return None
            self._known[application] = found
        return self._known[application]

    def follow(self, before: int, version: int, history: Sequence[Mapping[str, Any]]) -> None:
        """Move on to a newer version, if all commits since then are known; otherwise all is forgotten.

        Args:
            before: the version that the handle was at.
            version: the one that it is at.
            history: the entries of the commits between, the newest first.
        """
        if before != self._version or len(history) != version - before:
            return  # of() sees another version
        for entry in reversed(history):
            if entry.get(JOB_KEY) == self._job:
                for name, (_, to) in json.loads(entry[RANGES_KEY]).items():
                    topic, _, number = name.rpartition("-")
                    self._known[self._application_of(TopicPartition(topic, int(number)))] = to
        self._version = version
