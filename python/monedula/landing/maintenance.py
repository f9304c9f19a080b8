"""`compact` and `clean`: fewer and larger files for a table of Delta, and none that no version names.

The library's `optimize.compact()` removes files that others have removed meanwhile, and so repeats their rows. Here a
commit is for one version of the table, and only while all files that it removes are still there.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from monedula._arguments import seconds, whole_number
from monedula.errors import ArgumentError, LandingError
from monedula.landing.commits import PendingCommit
from monedula.landing.delta import Delta
from monedula.landing.store_errors import of_store

_MEMORY_BYTES = 64 << 20
_MOST_CONFLICTS = 20
LEAST_AGE_SECONDS = 86400.0
"""The least age of a file that is deleted though no version names it: twice that at which a job discards its own."""


@dataclass(frozen=True)
class CompactionResult:
    """What a compaction did.

    Attributes:
        removed_files: the files that were written together.
        added_files: those that they became.
        removed_bytes: the bytes of the former.
        added_bytes: the bytes of the latter.
        commits: the versions that it made.
        conflicts: how often another commit had removed a file first, and files were read anew.
    """

    removed_files: int = 0
    added_files: int = 0
    removed_bytes: int = 0
    added_bytes: int = 0
    commits: int = 0
    conflicts: int = 0


def compact(target: Any, *, target_bytes: int = 128 << 20) -> CompactionResult:
    """Write the small files of a table of Delta together, each partition value for itself.

    Jobs and other writers may go on meanwhile, and so may other compactions. Rows, positions and older versions stay
    as they are; the small files are deleted by `clean`, or any `VACUUM`. Each commit is of about `target_bytes`. Files
    with deletion vectors are left as they are.

    Args:
        target: the table, such as `monedula.Delta("./lake/orders")`.
        target_bytes: about how large files become. Those of half of it and more are left as they are.

    Returns:
        What was done.

    Raises:
        ArgumentError: if the target is no table of Delta.
        LandingError: if there is no table, if it has rules that landing jobs do not apply, or if others rewrite its
            files all the time.
    """
    if (whole_number(target_bytes) or 0) < 1:
        raise ArgumentError.of("target_bytes", target_bytes, "expected a number of bytes")
    table = _table(target, "Spark's and Trino's procedure rewrite_data_files does that")
    result = CompactionResult()
    while bins := _next_bins((snapshot := table.snapshot()).files(), target_bytes):
        if result.conflicts > _MOST_CONFLICTS:
            raise LandingError(f"{target!r}: others rewrite the same files all the time", hint="compact it less often")
        files = table.data_files(snapshot.schema, _MEMORY_BYTES)
        try:
            with of_store(table.name, "the files cannot be written anew"):
                for bin_ in bins:
                    for file in bin_:
                        snapshot.copy(file, files)
                    files.finish()
        except BaseException:
            files.discard()
            raise
        removed = [file for bin_ in bins for file in bin_]
        pending = PendingCommit([], {}, rewritten=files.finish(), removed=removed)
        if table.commit(pending):
            result = replace(
                result,
                removed_files=result.removed_files + len(removed),
                added_files=result.added_files + len(pending.rewritten),
                removed_bytes=result.removed_bytes + sum(file.size for file in removed),
                added_bytes=result.added_bytes + sum(file.size for file in pending.rewritten),
                commits=result.commits + 1,
            )
        else:
            result = replace(result, conflicts=result.conflicts + 1)
            if pending.is_certain:
                files.discard()
    return result


def clean(target: Any, *, older_than: float, dry_run: bool = False) -> list[str]:
    """Delete the files in the folder of a table of Delta that no version within its retention names.

    They are left by workers that died, by conflicts without an answer, and by compactions and upserts. Folders and
    files whose names begin with `_` or `.` are none of them.

    Args:
        target: the table, such as `monedula.Delta("./lake/orders")`.
        older_than: the age in seconds from which files are deleted: at least a day, for younger ones may be about to be
            committed, and at least the table's `delta.deletedFileRetentionDuration`, by default a week.
        dry_run: whether to delete nothing.

    Returns:
        The paths of the files, relative to the table.

    Raises:
        ArgumentError: if the target is no table of Delta, or `older_than` is too short.
        LandingError: if there is no table, or it has deletion vectors.
    """
    age = seconds("older_than", older_than)
    table = _table(target, "Spark's and Trino's procedure remove_orphan_files does that")
    least = max(LEAST_AGE_SECONDS, table.file_retention_seconds())
    if age < least:
        raise ArgumentError.of(
            "older_than",
            older_than,
            f"expected {least / 3600:g} hours or more: younger files may be about to be committed, or be those of "
            "versions that are kept",
        )
    deleted: list[str] = table.vacuum(age, dry_run)
    return deleted


def _table(target: Any, otherwise: str) -> Any:
    if not isinstance(target, Delta):
        raise ArgumentError.of("target", target, "expected a table of Delta", hint=f"for Iceberg {otherwise}")
    table = target._table("")
    table.adopt()
    return table


def _next_bins(files: list[Any], target_bytes: int) -> list[list[Any]]:
    """Small files that are written together by the next commit: several lists, each of one partition value."""
    chosen: list[list[Any]] = []
    size = 0
    for bin_ in _bins(files, target_bytes):
        chosen.append(bin_)
        size += sum(file.size for file in bin_)
        if size >= target_bytes:
            break
    return chosen


def _bins(files: list[Any], target_bytes: int) -> Iterator[list[Any]]:
    small: dict[Any, list[Any]] = {}
    sizes: Counter[Any] = Counter()
    for file in files:
        if file.size < target_bytes / 2 and not file.has_deletions:
            small.setdefault(file.partition, []).append(file)
            sizes[file.partition] += file.size
            if sizes[file.partition] >= target_bytes:
                yield small.pop(file.partition)
                del sizes[file.partition]
    yield from (bin_ for bin_ in small.values() if len(bin_) > 1)
