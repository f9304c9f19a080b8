"""`run` of share consumers behind one face, and what has become of a group's records."""

import time
from collections.abc import Callable
from typing import Any, ClassVar

import monedula
import pytest

from tests.groups.running import Runner
from tests.share.reading import PATIENCE_SECONDS


class ShareRunner(Runner):
    """A `Runner` with a share consumer of either kind."""

    classes: ClassVar[tuple[Any, Any]] = (monedula.ShareConsumer, monedula.AsyncShareConsumer)


def until(is_so: Callable[[], bool], why: Callable[[], object] = lambda: "") -> None:
    """Wait for something that must come true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            pytest.fail(f"it did not come true in {PATIENCE_SECONDS} s: {why()}")
        time.sleep(0.01)


def undone(bootstrap: str, group: str) -> int:
    """The number of records that the group has not done with."""
    with monedula.Admin(bootstrap_servers=bootstrap) as admin:
        return admin.group_lag(group).total
