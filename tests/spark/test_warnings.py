"""Where warnings go: into the log of Spark's own Python processes, nowhere in a user's process unless asked for."""

import os
import subprocess
import sys

import pytest

WARN = "import logging, monedula._logging; from monedula.spark.process import show_warnings; {}; show_warnings(); {}"
WARN += "; logging.getLogger('monedula.spark').warning('lost')"
IN_SPARK = "import sys; sys.modules['pyspark.worker_util'] = sys"


@pytest.mark.parametrize(
    ("process", "then", "expected"),
    [
        (IN_SPARK, "", ["WARNING monedula.spark: lost"]),
        ("pass", "", []),
        (IN_SPARK, "show_warnings()", ["WARNING monedula.spark: lost"]),
        (IN_SPARK, "logging.basicConfig(format='%(message)s')", ["lost"]),
    ],
    ids=["of Spark", "of a user", "of Spark, twice", "with logging configured"],
)
def test_in_a_process(process: str, then: str, expected: list[str]) -> None:
    program = WARN.format(process, then or "pass")
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert [line[line.find("WARNING") if "WARNING" in line else 0 :] for line in ran.stderr.splitlines()] == expected


@pytest.mark.parametrize(
    ("variables", "warned"),
    [
        ({"PYSPARK_DRIVER_PYTHON": "/driver/python", "PYSPARK_PYTHON": "./environment/bin/python"}, True),
        ({"PYSPARK_DRIVER_PYTHON": "/driver/python"}, True),
        ({"PYSPARK_DRIVER_PYTHON": "/same/python", "PYSPARK_PYTHON": "/same/python"}, False),
        ({"PYSPARK_DRIVER_PYTHON": "", "PYSPARK_PYTHON": "python3"}, False),
        ({}, False),
    ],
)
@pytest.mark.parametrize("source", ["DefaultSource", "RegisteredSource"])
def test_a_python_of_the_driver_alone_is_warned_of_unless_the_format_is_registered(
    variables: dict[str, str], warned: bool, source: str
) -> None:
    program = f"""
{IN_SPARK}
from pyspark_monedula import DefaultSource, RegisteredSource
options = {{"kafka.bootstrap.servers": "localhost:1", "subscribe": "orders", "topic": "orders"}}
source = {source}(options)
source.reader(source.schema())
source.streamReader(source.schema())
source.writer(source.schema(), False)
"""
    others = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True, env=others | variables
    )
    assert ran.stderr.count("Executors are started with /driver/python") == (warned and source == "DefaultSource")
