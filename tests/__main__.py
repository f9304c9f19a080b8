"""`python -m tests`: pytest in five processes; at most two failed tests are run once more, alone.

Clusters, JVMs and Spark share the cores with other tests, and a test that waits for one of them sometimes fails. Only
an assertion or an error in the test's own body is repeated. A crash, an abort, a time-out and an error in set-up or
teardown fail the run at once, and so do more than `MOST` failures. A test that passes alone is printed last, with the
trace of its failure: that failure is a defect, of the test or of the code, and has to be fixed.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.pairing import NEEDS_OF_TESTS, Paired

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

WORKERS = int(os.environ.get("MONEDULA_TEST_WORKERS", "5"))
"""Processes, on two cores: most tests wait for something."""

MOST = 2
AGAIN = "MONEDULA_TESTS_AGAIN"
"""Environment variable with the ids of the tests to run, as JSON. All others are skipped."""


class Outcomes:
    """The tests that failed on any worker, and those of them that may be run once more."""

    def __init__(self, needs: Path) -> None:
        self._needs = needs
        self.failed: dict[str, str] = {}
        self.beyond_repetition: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure with its trace."""
        if not report.failed:
            return
        trace = report.longreprtext
        self.failed.setdefault(report.nodeid, trace)
        if report.when not in ("setup", "call", "teardown"):  # xdist's report of a worker that died
            self.beyond_repetition.setdefault(report.nodeid, "it ended its process")
        elif report.when != "call":
            self.beyond_repetition.setdefault(report.nodeid, f"its {report.when} failed")
        elif "Failed: Timeout" in trace:
            self.beyond_repetition.setdefault(report.nodeid, "it timed out")

    def pytest_configure_node(self, node: "WorkerController") -> None:
        """Ask each worker for what its tests need."""
        node.workerinput[NEEDS_OF_TESTS] = str(self._needs)

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Paired:
        """Order tests so that those with JVMs run beside those without."""
        return Paired(config, log, self._needs)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be loaded has no test to repeat."""
        if report.failed:
            self.failed.setdefault(report.nodeid, report.longreprtext)
            self.beyond_repetition.setdefault(report.nodeid, "it could not be loaded")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """As a plug-in of the second run: leave only the tests that failed in the first."""
    wanted = set(json.loads(os.environ[AGAIN]))
    left_out = [item for item in items if item.nodeid not in wanted]
    items[:] = [item for item in items if item.nodeid in wanted]
    config.hook.pytest_deselected(items=left_out)


def main(arguments: list[str]) -> int:
    """Run the tests that pytest's `arguments` select, and return the exit code."""
    with tempfile.TemporaryDirectory() as directory:
        outcomes = Outcomes(Path(directory) / "needs.json")
        of_workers = ["-p", "tests.pairing", "-n", str(WORKERS), "--dist", "loadfile"]
        code = pytest.main([*of_workers, *arguments], plugins=[outcomes])
    if code != pytest.ExitCode.TESTS_FAILED:
        return int(code)
    names = list(outcomes.failed)
    for name, why in outcomes.beyond_repetition.items():
        print(f"\n!!! {name} is not run once more: {why}", flush=True)
    if outcomes.beyond_repetition or not 0 < len(names) <= MOST:
        return int(code)
    print("\n!!! Failed beside others, and run once more alone:", *names, sep="\n  ", flush=True)
    # The same arguments, so that no option is lost; the environment variable selects the tests.
    command = [sys.executable, "-m", "pytest", "-p", "tests.__main__", *arguments]
    environment = {**os.environ, AGAIN: json.dumps(names)}
    again = subprocess.run(command, env=environment, check=False).returncode
    if again == 0:
        for name in names:
            print(f"\n!!! {name} failed beside others with:\n{outcomes.failed[name]}", flush=True)
        print(
            "\n!!! Failed beside others and passed alone, each a defect to be mended:", *names, sep="\n  ", flush=True
        )
    return again


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
