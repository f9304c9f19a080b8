"""Helpers: polling until something came."""

import time

import monedula
import pytest

PATIENCE_SECONDS = 60.0


def one(consumer: monedula.ShareConsumer, max_rows: int = 1000) -> monedula.Batch:
    """The next batch with rows."""
    batch = consumer.poll(timeout=PATIENCE_SECONDS, max_rows=max_rows)
    if not batch:
        pytest.fail(f"nothing came in {PATIENCE_SECONDS} s: {consumer.health()}")
    return batch


def values(batch: monedula.Batch) -> list[int]:
    """The records' values as numbers."""
    return [int(record.value or b"") for record in batch.records()]


def take(consumer: monedula.ShareConsumer, count: int) -> list[int]:
    """Accept batches until `count` values came; they are returned in their order."""
    seen: list[int] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(seen) < count:
        if time.monotonic() > deadline:
            pytest.fail(f"{seen=} in {PATIENCE_SECONDS} s: {consumer.health()}")
        seen += values(consumer.poll(timeout=1.0))
    consumer.commit()
    return sorted(seen)
