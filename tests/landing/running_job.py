"""`RunningJob`: a job that lands on in a thread, while a test does something to its table."""

import threading
from collections.abc import Callable
from time import monotonic

from monedula.landing import LandingCommit, LandingJob

from tests.groups.ground import PATIENCE_SECONDS
from tests.landing.orders import Orders


class RunningJob:
    """A job, and what it has committed.

    Args:
        orders: what it lands.
        make: makes the job, which is to call `on_commit`.
    """

    def __init__(self, orders: Orders, make: Callable[..., LandingJob]) -> None:
        self._orders = orders
        self._rows = 0
        self._changed = threading.Condition()
        self.job = make(until=None, every=0.3, on_commit=self._note)
        self.job.start()

    def _note(self, commit: LandingCommit) -> None:
        with self._changed:
            self._rows += commit.rows
            self._changed.notify_all()

    def wait_for_all(self) -> None:
        """Wait until all that was sent is committed."""
        with self._changed:
            deadline = monotonic() + PATIENCE_SECONDS
            while self._rows < self._orders.count:
                assert self._changed.wait(deadline - monotonic()), self.job.health()
                assert self.job.health()["state"] == "running", self.job.health()

    def end(self) -> None:
        """Stop it."""
        self.job.stop()
        assert self.job.wait(PATIENCE_SECONDS) is not None
