"""Paths of files that a job ships (`--files`, `addFile`)."""

from pathlib import Path
from typing import Any

_FILE_ENDINGS = (".location", ".keytab", ".file")


def located(name: str, value: str) -> str:
    """The value of a setting; for a setting that names a file, the path of that file in this process."""
    return shipped(value) if name.endswith(_FILE_ENDINGS) else value


def shipped(path: str) -> str:
    """The path of a file: shipped with `--files` or `addFile` if it is not in the working directory, else as named.

    An executor works in the folder of shipped files, a driver does not.
    """
    if not path or Path(path).is_absolute() or Path(path).exists():
        return path
    root = _folder_of_shipped_files()
    if root is None:
        return path
    # The driver of a streaming query gets a folder of its session, inside the folder of all files.
    places = (root / path, root.parent / path)
    return next((str(place) for place in places if place.exists()), path)


def _folder_of_shipped_files() -> Path | None:
    from pyspark import SparkContext, SparkFiles

    files: Any = SparkFiles
    context: Any = SparkContext
    # Not `getRootDirectory()`, which fails where there is no context, as with Spark Connect.
    if files._is_running_on_worker:
        return Path(files._root_directory) if files._root_directory else None
    active = context._active_spark_context
    return None if active is None else Path(files.getRootDirectory())
