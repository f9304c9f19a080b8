"""monedula: `send_batch()` of Arrow record batches, the reports kept."""

import monedula

from benches import measure
from benches.producer import workload


def send(job: measure.Job) -> None:
    """Send, wait until everything is acknowledged."""
    table = workload.pool().table()
    pool = workload.POOL_RECORDS
    with monedula.Producer({"bootstrap.servers": job.bootstrap, "acks": "all", **job.settings}) as producer:
        producer.partitions_for(job.topic)
        phase = measure.Phase()
        futures = []
        for begin in range(0, job.records, pool):
            count = min(pool, job.records - begin)
            futures.append(producer.send_batch(table.slice(0, count), topic=job.topic))
            phase.add(count)
        reports = [future.result() for future in futures]
        result = phase.end()
    acknowledged = sum(report.acknowledged for report in reports)
    if acknowledged != job.records:
        raise RuntimeError(f"{acknowledged} of {job.records} are acknowledged")
    measure.report(result, "monedula")


if __name__ == "__main__":
    measure.run(send)
