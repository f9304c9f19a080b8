"""`DataFiles`: written by a thread of their own, within a bound of memory, in the order of rows."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from monedula.errors import LandingError
from monedula.landing.data_files import DataFiles

from tests.groups.ground import PATIENCE_SECONDS

SCHEMA = pa.schema([("number", pa.int64())])


class Folder:
    """A store that waits, and fails if it is told to."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self.is_open = threading.Event()
        self.is_open.set()
        self.is_full = False

    def open(self, path: str) -> Any:
        assert self.is_open.wait(PATIENCE_SECONDS)
        if self.is_full:
            raise OSError("the store is full")
        return (self._path / path).open("wb")

    def delete(self, path: str) -> None:
        (self._path / path).unlink()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def files_of(folder: Folder, max_memory_bytes: int = 64 << 20) -> DataFiles:
    return DataFiles(folder, SCHEMA, "shop", lambda name, value: f"{value}-{name}", max_memory_bytes)


def numbers(first: int, count: int) -> Any:
    return pa.record_batch({"number": pa.array(range(first, first + count), pa.int64())})


def test_each_value_has_its_rows_in_their_order(folder: Folder, tmp_path: Path) -> None:
    files = files_of(folder)
    shops = ["b", None, "a", "b", "a", None, "b"]
    for turn in range(2):
        files.write(numbers(turn * 7, 7), pa.array(shops))
    found = {file.partition: pq.read_table(tmp_path / file.path)["number"].to_pylist() for file in files.finish()}
    assert found == {"b": [0, 3, 6, 7, 10, 13], None: [1, 5, 8, 12], "a": [2, 4, 9, 11]}


def test_rows_are_read_on_while_others_are_written(folder: Folder) -> None:
    folder.is_open.clear()
    files = files_of(folder)
    files.write(numbers(0, 10))
    files.write(numbers(10, 10))
    assert (files.rows, files.size) == (20, 160), "the store does not answer yet"
    folder.is_open.set()
    assert [file.rows for file in files.finish()] == [20]


def test_no_more_rows_wait_than_fit(folder: Folder) -> None:
    folder.is_open.clear()
    files = files_of(folder, max_memory_bytes=8000)
    files.write(numbers(0, 500))
    writing = threading.Thread(target=files.write, args=(numbers(500, 500),), daemon=True)
    writing.start()
    writing.join(0.2)
    assert files.rows == 500, "the second rows wait for the first"
    folder.is_open.set()
    writing.join(PATIENCE_SECONDS)
    assert [file.rows for file in files.finish()] == [1000]


@pytest.mark.parametrize("step", ["write", "finish"])
def test_what_cannot_be_written_is_told(folder: Folder, tmp_path: Path, step: str) -> None:
    folder.is_full = True
    files = files_of(folder, max_memory_bytes=16)
    files.write(numbers(0, 10))
    with pytest.raises(LandingError, match="the store is full"):
        files.write(numbers(10, 10)) if step == "write" else files.finish()
    files.discard()
    assert not list(tmp_path.iterdir())


def test_what_is_discarded_leaves_no_file(folder: Folder, tmp_path: Path) -> None:
    files = files_of(folder, max_memory_bytes=80)
    for turn in range(5):
        files.write(numbers(turn * 10, 10), pa.array(["a", "b"] * 5))
    files.discard()
    assert not list(tmp_path.iterdir())


def test_a_store_that_hangs_keeps_no_process_from_its_end() -> None:
    program = """
import threading
import pyarrow as pa
from monedula.landing.data_files import DataFiles
class Hanging:
    name = "lake"
    def open(self, path):
        is_reached.set()
        threading.Event().wait()
is_reached = threading.Event()
files = DataFiles(Hanging(), pa.schema([("number", pa.int64())]), None, lambda name, _: name, 1 << 20)
files.write(pa.record_batch({"number": [1]}))
is_reached.wait()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE_SECONDS)
