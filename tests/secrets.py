"""Looks for a secret in what a process wrote, in each way in which it may be written."""

import base64
import logging
from collections.abc import Iterable
from pathlib import Path

CANARY = "Canary7Q2xPassword"
"""A password that is found nowhere else."""


def assert_no_secret(where: str, data: bytes, secret: str = CANARY) -> None:
    """Fail with what stands around the secret."""
    for form in _forms_of(secret.encode()):
        at = data.find(form)
        assert at < 0, f"{where} has the secret: {data[max(0, at - 400) : at + 100]!r}"


def assert_no_secret_in_files(directory: Path, known: Iterable[Path] = (), secret: str = CANARY) -> int:
    """Look into all files below a folder, but not into copies of `known`, which may have it; how many there were."""
    contents = {path.read_bytes() for path in known}
    files = [path for path in directory.rglob("*") if path.is_file() and not path.is_symlink()]
    for path in files:
        data = path.read_bytes()
        if data not in contents:
            assert_no_secret(str(path), data, secret)
    return len(files)


def assert_no_secret_in_command_lines(pids: Iterable[int], secret: str = CANARY) -> None:
    """Look into the arguments of processes, which everyone on the machine may see."""
    for pid in pids:
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue  # it has just ended
        assert_no_secret(f"the command line of {pid}", arguments, secret)


def assert_no_secret_in_records(records: Iterable[logging.LogRecord], *secrets: str) -> int:
    """Look into the text of log records, and into their fields (`extra`), which formatters may write; how many."""
    looked_at = list(records)
    for record in looked_at:
        written = f"{record.getMessage()} {vars(record)!r}".encode()
        for secret in secrets or (CANARY,):
            assert_no_secret(f"a record of {record.name}", written, secret)
    return len(looked_at)


def _forms_of(secret: bytes) -> list[bytes]:
    """As it is, in hexadecimal digits, and in base64 from each place in a longer text."""
    coded = []
    for before, mixed in ((0, 0), (1, 2), (2, 3)):
        whole = base64.b64encode(b"\0" * before + secret).rstrip(b"=")
        coded.append(whole[mixed:-1])  # without what depends on the neighbours
    return [secret, secret.hex().encode(), secret.decode().encode("utf-16-le"), *coded]
