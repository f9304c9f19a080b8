"""`store_away`: the log of a table of Delta is out of reach, as a store that does not answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def store_away(path: Path) -> Iterator[None]:
    """Have a file stand where the folder of the log was: it can be neither read nor written, not even by root."""
    log, kept = path / "_delta_log", path / "_delta_log.away"
    log.rename(kept)
    log.write_text("")
    try:
        yield
    finally:
        log.unlink()
        kept.rename(log)
