"""A member of a share group on monedula, as docs/share-groups.md reads: batches, and masks over their columns."""

from typing import Any

import monedula

from benches import measure

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "deliveryCount"]


def read(job: measure.Job) -> None:
    """Read until every record is accepted or rejected; the clock starts with the first batch, which does not count."""
    is_masked = job.settings.pop("decisions") == "mask"
    settings = {name: int(value) if value.isdigit() else value for name, value in job.settings.items()}
    config: dict[str, Any] = {"bootstrap.servers": job.bootstrap, **settings}
    if is_masked:
        import polars  # noqa: F401 - imported by the first `to_polars`: not reading
    phase, settled = None, 0
    with monedula.ShareConsumer(config, topics=[job.topic], columns=COLUMNS) as consumer:
        for batch in consumer.batches(max_rows=100_000):
            if phase is None:
                phase = measure.Phase()
            else:
                phase.add(batch.num_rows)
            settled += batch.num_rows - (_decide(consumer, batch) if is_masked else 0)
            if settled >= job.records:
                break
        consumer.commit()
        phase = phase or measure.Phase()
        result = {**phase.end(), "settled": settled}
    measure.report(result, "monedula")


def _decide(consumer: monedula.ShareConsumer, batch: monedula.Batch) -> int:
    """Reject a row in a hundred, release one at its first delivery. Returns the number of released rows."""
    frame = batch.to_polars()
    remainder = frame["offset"] % 100
    consumer.reject(batch, remainder == 0)
    released = (remainder == 50) & (frame["deliveryCount"] == 1)
    consumer.release(batch, released)
    return int(released.sum())


if __name__ == "__main__":
    measure.run(read)
