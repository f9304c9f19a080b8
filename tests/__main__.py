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
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

WORKERS = int(os.environ.get("MONEDULA_TEST_WORKERS", "5"))
"""Processes, on two cores: most tests wait for something."""

MOST = 2
AGAIN = "MONEDULA_TESTS_AGAIN"
"""Environment variable of the second run, with the ids of its tests as JSON."""
UNITS = "monedula_units"
"""The key of `workerinput` with the file for the unit of each of a worker's tests."""


class Units(LoadScopeScheduling):
    """The tests of a unit (`tests.jvms`) run in one worker; a file is a unit where the workers have written none.

    xdist's own mark for that, `xdist_group`, has no effect under pytest 9: it sets an attribute that is gone.
    """

    def __init__(self, config: pytest.Config, log: Any, folder: Path) -> None:
        super().__init__(config, log)
        self._folder = folder
        self._units: dict[str, str] = {}

    def schedule(self) -> None:
        """All workers have collected the same tests."""
        for written in self._folder.iterdir():
            self._units |= json.loads(written.read_text())
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return self._units.get(nodeid) or nodeid.partition("::")[0]

    def remove_node(self, node: Any) -> str | None:
        """Leave out the test that ended its worker: xdist would give it to each of the others, which it ends too."""
        left = [(unit, name) for unit in self.assigned_work[node].values() for name in unit if not unit[name]]
        for unit, name in left[:1]:
            unit[name] = True
        super().remove_node(node)
        return left[0][1] if left else None


class Outcomes:
    """The tests that failed on any worker, and those of them that may be run once more."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.failed: dict[str, str] = {}
        self.beyond_repetition: dict[str, str] = {}

    def pytest_configure_node(self, node: Any) -> None:
        """Ask each worker for the units of its tests."""
        node.workerinput[UNITS] = str(self._folder / node.gateway.id)

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Units:
        """Hand out the tests by their units."""
        return Units(config, log, self._folder)

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

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be loaded has no test to repeat."""
        if report.failed:
            self.failed.setdefault(report.nodeid, report.longreprtext)
            self.beyond_repetition.setdefault(report.nodeid, "it could not be loaded")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """As a plug-in of the second run: leave only the tests that failed in the first."""
    if AGAIN in os.environ:
        wanted = set(json.loads(os.environ.pop(AGAIN)))  # not for the runs that tests of this module start
        left_out = [item for item in items if item.nodeid not in wanted]
        items[:] = [item for item in items if item.nodeid in wanted]
        config.hook.pytest_deselected(items=left_out)


def main(arguments: list[str]) -> int:
    """Run the tests that pytest's `arguments` select, and return the exit code."""
    with tempfile.TemporaryDirectory() as directory:
        outcomes = Outcomes(Path(directory))
        workers = ["-n", str(WORKERS), "--no-loadscope-reorder"]
        code = pytest.main([*workers, *arguments], plugins=[outcomes])
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
