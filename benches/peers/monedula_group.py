"""monedula as the only member of a group: what membership and automatic commits cost beside `monedula_batches`.

The clock starts with the assignment: how long a broker waits before a group's first rebalance is its own setting.
"""

import uuid
from typing import Any

import monedula

from benches import measure


def read(job: measure.Job) -> None:
    """Count rows of Arrow batches up to the wanted number."""
    settings = {name: int(value) if value.isdigit() else value for name, value in job.settings.items()}
    config: dict[str, Any] = {
        "bootstrap.servers": job.bootstrap,
        "group.id": f"benches-{uuid.uuid4()}",
        "auto.offset.reset": "earliest",
        **settings,
    }
    checks = measure.Checks() if job.verify else None
    with monedula.Consumer(config) as consumer:
        phases: list[measure.Phase] = []
        consumer.subscribe([job.topic], on_assigned=lambda _: phases.append(measure.Phase()))
        for batch in consumer.batches(max_rows=100_000):
            if checks is not None:
                checks.add(batch)
            if phases[0].add(batch.num_rows) >= job.records:
                break
        result = phases[0].end()
    measure.report(result, "monedula", checks)


if __name__ == "__main__":
    measure.run(read)
