"""Folders that are created once and kept for later runs, shared by any number of sessions."""

import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def digest(*files: Path) -> str:
    """A digest of these files, for a folder's name: changed files get another folder, never a mixture of two."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def kept(directory: Path, make: Callable[[Path], None]) -> Path:
    """The folder, made first if it is not there.

    Args:
        directory: the folder; its name has to have a digest of its sources.
        make: fills an empty folder, which is renamed when it is whole: an interrupted `make` leaves nothing behind that
            could be taken for the real one.
    """
    if not directory.is_dir():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with (directory.parent / "fetch.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not directory.is_dir():
                _make(directory, make)
    return directory


def _make(directory: Path, make: Callable[[Path], None]) -> None:
    partial = Path(tempfile.mkdtemp(prefix=f"{directory.name}.", dir=directory.parent))
    try:
        make(partial)
        partial.chmod(0o755)  # mkdtemp keeps others out; the cache may be shared
        partial.rename(directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
