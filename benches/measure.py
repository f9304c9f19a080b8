"""What every peer measures, in the same way: its own clock, its own CPU, its own count.

A peer's process prints one JSON line:

| field | meaning |
|---|---|
| records | how many it saw, by its own count |
| seconds | from the call that starts fetching to the last record |
| cpu_seconds | user and system CPU of this process over the same time, all threads |
| first_seconds, first_records | the time of the first delivery, and its size (absent where a peer cannot tell) |
| version | of the client |
| checks | only with `--verify`: what it read, by partition; see `Checks` |
"""

import argparse
import importlib.metadata
import json
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Job:
    """What a peer is to read."""

    bootstrap: str
    topic: str
    records: int
    partitions: int
    settings: dict[str, str]
    verify: bool

    def setting(self, name: str, default: int) -> int:
        """A number among the settings."""
        return int(self.settings.get(name, default))


def run(read: Callable[[Job], None], prepare: Callable[[], None] | None = None) -> None:
    """The `main` of a peer: parse the arguments, then `prepare` (build what is to be built) or `read`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--prepare", action="store_true", help="build what this peer runs, and stop")
    parser.add_argument("--bootstrap", default="")
    parser.add_argument("--topic", default="")
    parser.add_argument("--records", type=int, default=0)
    parser.add_argument("--partitions", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the client")
    parser.add_argument("--verify", action="store_true")
    given = parser.parse_args()
    if given.prepare:
        if prepare is not None:
            prepare()
        return
    settings = dict(item.split("=", 1) for item in given.set)
    read(Job(given.bootstrap, given.topic, given.records, given.partitions, settings, given.verify))


class Phase:
    """The measured phase; starts when it is made."""

    def __init__(self) -> None:
        self.records = 0
        self._first: tuple[float, int] | None = None
        self._cpu_start = time.process_time()
        self._start = time.perf_counter()

    def add(self, records: int) -> int:
        """Count a delivery; returns the count so far."""
        if self._first is None and records > 0:
            self._first = (time.perf_counter() - self._start, records)
        self.records += records
        return self.records

    def end(self) -> dict[str, Any]:
        """Stop the clocks."""
        seconds = time.perf_counter() - self._start
        cpu_seconds = time.process_time() - self._cpu_start
        first_seconds, first_records = self._first or (seconds, 0)
        return {
            "records": self.records,
            "seconds": seconds,
            "cpu_seconds": cpu_seconds,
            "first_seconds": first_seconds,
            "first_records": first_records,
        }


def report(result: dict[str, Any], package: str, checks: "Checks | None" = None) -> None:
    """Print the one line that the harness reads; `package` is what pip calls the client."""
    _print(result, importlib.metadata.version(package), checks)


def report_foreign(result: dict[str, Any], version: str) -> None:
    """The same, of a client that is no Python package."""
    _print(result, version, None)


def _print(result: dict[str, Any], version: str, checks: "Checks | None") -> None:
    result = {**result, "version": version}
    if checks is not None:
        result["checks"] = checks.result()
    print(json.dumps(result), flush=True)


@dataclass
class _Partition:
    records: int = 0
    next_offset: int = 0
    keys_crc: int = 0
    values_crc: int = 0
    timestamps_sum_us: int = 0


@dataclass
class Checks:
    """What was read, by partition, however the records were cut into batches.

    Count, contiguous offsets, a CRC-32 over all keys and one over all values in order: equal results, equal columns.
    """

    partitions: dict[int, _Partition] = field(default_factory=dict)

    def add(self, batch: Any) -> None:
        """Take in one Arrow batch with the columns key, value, partition, offset, timestamp.

        Raises:
            ValueError: an offset is missing, repeated or out of order.
        """
        import pyarrow
        from pyarrow import compute

        table: Any = pyarrow.record_batch(batch)
        timestamps = table["timestamp"].cast(pyarrow.timestamp("us", "UTC")).cast(pyarrow.int64())
        for number in compute.unique(table["partition"]).to_pylist():
            rows = compute.equal(table["partition"], number)
            state = self.partitions.setdefault(number, _Partition())
            offsets = table["offset"].filter(rows).to_pylist()
            if offsets != list(range(state.next_offset, state.next_offset + len(offsets))):
                raise ValueError(f"partition {number}: offsets {offsets[:3]}... do not follow {state.next_offset}")
            state.records += len(offsets)
            state.next_offset += len(offsets)
            state.keys_crc = _crc(table["key"].filter(rows).to_pylist(), state.keys_crc)
            state.values_crc = _crc(table["value"].filter(rows).to_pylist(), state.values_crc)
            # Summed in Python: microseconds since 1970 overflow an int64 after 5000 rows.
            state.timestamps_sum_us += sum(timestamps.filter(rows).to_pylist())

    def result(self) -> dict[str, list[int]]:
        """One row a partition: records, CRC of keys, CRC of values, sum of timestamps."""
        return {
            str(number): [state.records, state.keys_crc, state.values_crc, state.timestamps_sum_us]
            for number, state in sorted(self.partitions.items())
        }


def _crc(values: Iterable[bytes | None], crc: int) -> int:
    # An end mark after each, and another byte for null: the same bytes cut elsewhere are another column.
    return zlib.crc32(b"".join(b"\xff" if value is None else value + b"\0" for value in values), crc)
