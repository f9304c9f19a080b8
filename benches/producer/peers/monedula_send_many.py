"""monedula: `send_many()` of lists of pairs, the reports kept."""

import monedula

from benches import measure
from benches.producer import workload


def send(job: measure.Job) -> None:
    """Send, wait until everything is acknowledged."""
    pool = workload.pool()
    pairs = list(zip(pool.keys, pool.values, strict=True))
    with monedula.Producer({"bootstrap.servers": job.bootstrap, "acks": "all", **job.settings}) as producer:
        producer.partitions_for(job.topic)
        phase = measure.Phase()
        futures = []
        for count in pool.passes(job.records):
            futures.append(producer.send_many(job.topic, pairs[:count]))
            phase.add(count)
        reports = [future.result() for future in futures]
        result = phase.end()
    acknowledged = sum(report.acknowledged for report in reports)
    if acknowledged != job.records:
        raise RuntimeError(f"{acknowledged} of {job.records} are acknowledged")
    measure.report(result, "monedula")


if __name__ == "__main__":
    measure.run(send)
