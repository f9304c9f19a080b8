"""Java's own producer, as Kafka's own ProducerPerformance measures it.

It sends no keys: key and value are joined to a value. Its time is what it prints, from its first send on; its CPU is
that of the whole process, the start of the JVM included.
"""

import os
import re
import subprocess
import tempfile
from pathlib import Path

from benches import measure
from benches.producer import workload
from tests.kafka import jars

TOTAL = re.compile(r"(\d+) records sent, ([\d.]+) records/sec")


def send(job: measure.Job) -> None:
    """Run ProducerPerformance and report the figures that it prints."""
    pool = workload.pool()
    settings = {"acks": "all", **job.settings}
    with tempfile.TemporaryDirectory() as directory:
        payloads, config = Path(directory, "payloads"), Path(directory, "producer.properties")
        payloads.write_bytes(b"\n".join(key + value for key, value in zip(pool.keys, pool.values, strict=True)))
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = [jars.java(), "-Xms1g", "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
        command += ["-cp", jars.tools_class_path(), "org.apache.kafka.tools.ProducerPerformance"]
        command += ["--bootstrap-server", job.bootstrap, "--topic", job.topic, "--num-records", str(job.records)]
        command += ["--throughput", "-1", "--payload-file", str(payloads), "--command-config", str(config)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if process.stdout is None:
            raise RuntimeError("ProducerPerformance has no standard output")
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
    totals = TOTAL.findall(printed)
    if status != 0 or not totals:
        raise RuntimeError(f"ProducerPerformance ended with {os.waitstatus_to_exitcode(status)}: {printed[-2000:]}")
    records, rate = totals[-1]  # the lines before are of every five seconds
    result = {
        "records": int(records),
        "seconds": int(records) / float(rate),
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_rss_bytes": usage.ru_maxrss * 1024,  # of the JVM, which the harness cannot see behind this process
    }
    version = next(Path(jars.tools_class_path()).parent.glob("kafka-clients-*.jar")).stem.removeprefix("kafka-clients-")
    measure.report_foreign(result, version)


if __name__ == "__main__":
    measure.run(send, prepare=lambda: print(jars.java()))
