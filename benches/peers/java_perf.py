"""Java's own consumer, as Kafka's own ConsumerPerformance measures it.

Its fetch phase is taken, without the time to join a group. Its CPU can only be had for the whole process, so the start
of the JVM is in that figure; with 10 M records it is about a tenth of it.
"""

import csv
import os
import subprocess
import tempfile
from pathlib import Path

from benches import measure
from tests.kafka import jars

GROUP_SETTINGS = {"enable.auto.commit": "false", "auto.offset.reset": "earliest"}


def read(job: measure.Job) -> None:
    """Run ConsumerPerformance and report the figures that it prints."""
    settings = {**GROUP_SETTINGS, **job.settings}
    fetch_size = settings.pop("fetch-size", None)
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "consumer.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = [jars.java(), "-Xms1g", "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
        command += ["-cp", jars.tools_class_path(), "org.apache.kafka.tools.ConsumerPerformance"]
        command += ["--bootstrap-server", job.bootstrap, "--topic", job.topic, "--num-records", str(job.records)]
        command += ["--command-config", str(config), "--timeout", "30000"]
        if fetch_size is not None:
            command += ["--fetch-size", fetch_size]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if process.stdout is None:
            raise RuntimeError("ConsumerPerformance has no standard output")
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise RuntimeError(f"ConsumerPerformance ended with {os.waitstatus_to_exitcode(status)}: {printed}")
    header, row = list(csv.reader(printed.strip().splitlines(), skipinitialspace=True))[-2:]
    figures = dict(zip((name.strip() for name in header), row, strict=True))
    records = int(figures["data.consumed.in.nMsg"])
    result = {
        "records": records,
        "seconds": int(figures["fetch.time.ms"]) / 1000,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_rss_bytes": usage.ru_maxrss * 1024,  # of the JVM, which the harness cannot see behind this process
    }
    version = next(Path(jars.tools_class_path()).parent.glob("kafka-clients-*.jar")).stem.removeprefix("kafka-clients-")
    measure.report_foreign(result, version)


if __name__ == "__main__":
    measure.run(read, prepare=lambda: print(jars.java()))
