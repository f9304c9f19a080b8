"""Java's own consumer, as Kafka's own ConsumerPerformance measures it; its share consumer by ShareConsumerPerformance.

Its fetch phase is taken, without the time to join a group, which of a share group it does not tell. Its CPU can only be
had for the whole process, so the start of the JVM is in that figure; with 10 M records it is about a tenth of it.
"""

import csv
import os
import subprocess
import tempfile
from pathlib import Path

from benches import measure
from tests.kafka import jars

GROUP_SETTINGS = {"enable.auto.commit": "false", "auto.offset.reset": "earliest"}
OPTIONS = {"--fetch-size": "fetch-size", "--group": "group.id"}
"""What is no setting of the consumer's file: the program's option, by the name among our settings."""
# ShareConsumerPerformance ends a run after its time-out even if records come.
PROGRAMS: dict[str, tuple[dict[str, str], int]] = {
    "ConsumerPerformance": (GROUP_SETTINGS, 30_000),
    "ShareConsumerPerformance": ({}, 600_000),
}


def read(job: measure.Job) -> None:
    """Run the program and report the figures that it prints."""
    program = job.settings.pop("program", "ConsumerPerformance")
    defaults, timeout_ms = PROGRAMS[program]
    settings = {**defaults, **job.settings}
    options = {option: settings.pop(name, None) for option, name in OPTIONS.items()}
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "consumer.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = [jars.java(), "-Xms1g", "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
        command += ["-cp", jars.tools_class_path(), f"org.apache.kafka.tools.{program}"]
        command += ["--bootstrap-server", job.bootstrap, "--topic", job.topic, "--num-records", str(job.records)]
        command += ["--command-config", str(config), "--timeout", str(timeout_ms)]
        for option, value in options.items():
            command += [] if value is None else [option, value]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if process.stdout is None:
            raise RuntimeError(f"{program} has no standard output")
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise RuntimeError(f"{program} ended with {os.waitstatus_to_exitcode(status)}: {printed}")
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
