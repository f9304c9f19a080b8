"""`DeltaTransactions`: the transactions of applications in a log of Delta, as of the newest version that was read.

deltalake reads the log since its last checkpoint anew for each application that it is asked for: on S3, 300 requests
for 50 partitions after six versions. Here each version is read once.
"""

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from monedula.landing.delta_store import DeltaStore

_MOST_BACK = 100
"""Versions that are read back for an application before deltalake is asked, which knows checkpoints."""


class DeltaTransactions:
    """See the module.

    Args:
        store: has the log.
        table: the handle, which is asked for what the versions do not have.
    """

    def __init__(self, store: "DeltaStore", table: "DeltaTable") -> None:
        self._store = store
        self._table = table
        self._known: dict[str, int] = {}
        """As of versions from `_first` on, before `_next`."""
        self._older: dict[str, int | None] = {}
        """Told by deltalake, of those that none of these versions has."""
        self._operations: set[str] = set()
        self._first = self._next = int(table.version()) + 1

    def take_operations(self) -> set[str]:
        """The operations of the versions that the handle has got since the last call."""
        self._read_on()
        operations, self._operations = self._operations, set()
        return operations

    def _read_on(self) -> None:
        newest = int(self._table.version())
        try:
            while self._next <= newest:
                actions = self._actions(self._next)
                self._next += 1
                self._known |= _transactions(actions)
                self._operations |= {
                    str(each["commitInfo"].get("operation")) for each in actions if "commitInfo" in each
                }
        except FileNotFoundError:  # cleaned up, behind a checkpoint
            self._known, self._older = {}, {}
            self._first = self._next = newest + 1

    def version_of(self, application: str) -> int | None:
        """The version of an application's last transaction as the handle has it; `None` if it has none."""
        # The handle may have moved on where reading failed: what a commit extends must be what is compared.
        self._read_on()
        if application in self._older and application not in self._known:
            return self._older[application]
        while application not in self._known and self._first > max(0, self._next - _MOST_BACK):
            try:
                actions = self._actions(self._first - 1)
            except FileNotFoundError:
                break
            self._first -= 1
            self._known = _transactions(actions) | self._known
        if application in self._known:
            return self._known[application]
        if self._first == 0:
            return None
        found: int | None = self._table.transaction_version(application)
        self._older[application] = found
        return found

    def _actions(self, version: int) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._store.read(f"_delta_log/{version:020}.json").splitlines()]


def _transactions(actions: list[dict[str, Any]]) -> dict[str, int]:
    return {each["txn"]["appId"]: int(each["txn"]["version"]) for each in actions if "txn" in each}
