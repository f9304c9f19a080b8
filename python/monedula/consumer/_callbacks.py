"""`CallsBack`: the callbacks of a `Consumer`, which run in the thread that waits."""

from threading import get_ident

from monedula._monedula import PendingCallback
from monedula.consumer._commits import CommitFuture
from monedula.consumer._group import GroupVerbs

_NOBODY = 0
"""The number of a holder that never holds anything."""


class CallsBack(GroupVerbs):
    """Calls the callbacks of rebalances and of commits."""

    _commits: list[CommitFuture]
    _calling_back: int | None = None
    """The thread in which a rebalance callback runs."""
    _leaves_unfinished = False
    """True if `close` leaves the rows that its thread holds unfinished, so that they are read again."""

    def _call_back(self, pending: PendingCallback) -> None:
        call, failed = self._listeners.of(pending), True
        self._calling_back = get_ident()
        try:
            call()
            failed = False
        finally:
            self._calling_back = None
            self._member.called_back(pending.ticket, failed)

    def _is_calling_back(self) -> bool:
        return self._calling_back == get_ident()

    def _finisher(self) -> int | None:
        """Holder whose batches `commit()` finishes: `None` for this thread.

        Nobody's in a callback of a `close` that leaves them unfinished: processing them has failed, or goes on.
        """
        return _NOBODY if self._leaves_unfinished and self._is_calling_back() else None

    def _tell_commits(self) -> None:
        for future in [future for future in self._commits if future.done()]:
            future.run_callbacks()
            if future in self._commits:
                self._commits.remove(future)
