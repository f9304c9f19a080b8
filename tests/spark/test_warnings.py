"""Where warnings go: into the log of Spark's own Python processes, nowhere in a user's process unless asked for."""

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
