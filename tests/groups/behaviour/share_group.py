"""A share group at work: no member owns a partition, and a history is judged record by record."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import monedula

from tests.groups.behaviour.checker import Verdict
from tests.groups.behaviour.group import Group
from tests.groups.behaviour.history import Event, TopicPartition, Truth, merged, of_kind
from tests.groups.behaviour.share_checker import STAGE, ShareChecker
from tests.interop.process import eventually


class ShareGroup(Group):
    """The members of a share group; arguments as of `Group`."""

    def __init__(self, bootstrap: str, group: str, topics: list[str], **options: Any) -> None:
        super().__init__(bootstrap, group, topics, client="share", **options)
        self._bootstrap = bootstrap
        self._noted: list[Event] = []

    @contextmanager
    def disturbed(self) -> Iterator[None]:
        """Note that brokers fail meanwhile: records may come again, and acknowledgements be refused."""
        self._note("disturbed")
        yield
        self._note("quiet")

    def history(self) -> list[Event]:
        return merged(super().history(), self._noted)

    def wait_shared(self, partitions: int | Iterable[TopicPartition], *, evenly: bool = True) -> None:  # noqa: ARG002
        """Wait until all members have joined."""
        self.eventually("all to join", lambda: all(member.generations for member in self.alive))

    def wait_done(self, ends: dict[TopicPartition, int]) -> None:
        """Wait until the group is done with every record below these offsets, by its members and by the brokers."""
        wanted: Truth = {partition: [b""] * end for partition, end in ends.items()}

        def reached() -> bool:
            self._check_alive()
            return self.judge(wanted, self.history()).committed == ends

        self.eventually("all records to be done", reached)
        with monedula.Admin({"bootstrap.servers": self._bootstrap}) as admin:
            eventually("no lag", lambda: admin.group_lag(self.group).total == 0)

    def judge(self, truth: Truth, history: list[Event], **options: bool) -> Verdict:
        return ShareChecker(truth, lock_seconds=self.session_seconds, **options).check(history)

    def handed_out_again(self, held: Event) -> bool:
        """Whether every record of a batch was handed to somebody later."""
        later = [event for event in of_kind(self.history(), "batch") if event["t"] > held["t"]]
        came = {tuple(row[:3]) for event in later for row in event["rows"]}
        return {tuple(row[:3]) for row in held["rows"]} <= came

    def _note(self, event: str) -> None:
        self._noted.append({"t": time.monotonic_ns(), "member": STAGE, "event": event})
