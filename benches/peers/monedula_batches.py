"""monedula: `batches()`, as in the README."""

from typing import Any

import monedula

from benches import measure


def read(job: measure.Job) -> None:
    """Count rows of Arrow batches up to the wanted number."""
    settings = {name: int(value) if value.isdigit() else value for name, value in job.settings.items()}
    config: dict[str, Any] = {"bootstrap.servers": job.bootstrap, **settings}
    checks = measure.Checks() if job.verify else None
    with monedula.Consumer(config) as consumer:
        phase = measure.Phase()
        consumer.assign({(job.topic, partition): 0 for partition in range(job.partitions)})
        for batch in consumer.batches(max_rows=100_000):
            if checks is not None:
                checks.add(batch)
            if phase.add(batch.num_rows) >= job.records:
                break
        result = phase.end()
    measure.report(result, "monedula", checks)


if __name__ == "__main__":
    measure.run(read)
