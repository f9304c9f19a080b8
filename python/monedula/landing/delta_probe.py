"""`check_put_if_absent`: whether a store refuses to write one version of a log twice.

deltalake looks which versions there are before it writes one, so the condition of the write itself counts only when two
writers meet. The probe has two of them create one throwaway table at the same moment: if both have made its version 0,
the store lets two commits in, and the rows of one are lost.
"""

import logging
from contextlib import suppress
from threading import Barrier, Thread
from uuid import uuid4

from deltalake import DeltaTable, Field, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.fs import DeltaStorageHandler

from monedula.errors import LandingError
from monedula.landing.data_files import is_remote

_log = logging.getLogger("monedula.landing")

_ROUNDS = 5
_WRITERS = 2
_COLUMNS = Schema([Field("id", "long")])


def check_put_if_absent(path: str, options: dict[str, str]) -> None:
    """Refuse a store that writes a file although it is there. Local folders are not looked at: they link files.

    The throwaway table is beside the log, in a folder that readers and `VACUUM` pass over for its underscore, and is
    deleted.

    Raises:
        LandingError: if two writers made one version.
        OSError: if the store does not take them at all.
    """
    if not is_remote(path):
        return
    for _ in range(_ROUNDS):
        folder = f"{path.rstrip('/')}/_monedula_probe/{uuid4()}"
        versions, has_met = _race(folder, options)
        # A probe that is left does no harm. Where the race fails none is deleted: it would fail as well, as slowly.
        with suppress(Exception):
            DeltaStorageHandler(folder, options).delete_dir("")
        if versions and max(versions) < len(versions) - 1:
            raise LandingError(
                f"{path}: the store lets two writers make one version of a table, and what one of them wrote is lost",
                hint="use a store with conditional writes (If-None-Match), without a proxy that removes them; or on S3 "
                "deltalake's locking by DynamoDB",
            )
        if has_met:
            return
    _log.warning(
        "landing: %s: two writers did not meet in %d rounds: whether the store keeps them apart is not known",
        path,
        _ROUNDS,
    )


def _race(folder: str, options: dict[str, str]) -> tuple[list[int], bool]:
    """Create a table twice at once.

    Returns:
        The newest version that each writer saw after its own, and whether both were about to write at one moment.
    """
    gate = Barrier(_WRITERS)
    versions: list[int] = []
    failures: list[Exception] = []

    def create() -> None:
        gate.wait()
        try:
            versions.append(DeltaTable.create(folder, _COLUMNS, storage_options=options).version())
        except Exception as error:  # of many classes; one that another thread sees is below
            failures.append(error)

    threads = [Thread(target=create, daemon=True) for _ in range(_WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for failure in failures:
        # deltalake has the same class for a table that is there already: then they did not meet.
        if not isinstance(failure, DeltaError):
            raise failure
    # Both made a version, or one was told at its write that there is one.
    has_met = len(versions) == _WRITERS or any(isinstance(failure, CommitFailedError) for failure in failures)
    return versions, has_met
