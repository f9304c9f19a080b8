"""`make test`: every test, two at a time; what failed of them is run once more, alone.

Clusters, JVMs and Spark share two cores with the tests beside them, and a test that waits for one of them fails now
and then for want of time alone. A test that fails alone as well fails the run, and so do more than `MOST` failures. One
that passes alone is named at the end as what it is: a defect, of the test or of what it tests, which is to be mended.
"""

import subprocess
import sys
from pathlib import Path

import pytest

MOST = 5


class Failures:
    """Which tests failed, wherever they ran."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.root = Path()

    def pytest_configure(self, config: pytest.Config) -> None:
        self.root = config.rootpath

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.names[report.nodeid] = None


def main(arguments: list[str]) -> int:
    failures = Failures()
    code = pytest.main(["-n", "2", "--dist", "loadfile", *arguments], plugins=[failures])
    names = list(failures.names)
    if code != pytest.ExitCode.TESTS_FAILED or not 0 < len(names) <= MOST:
        return int(code)
    listed = "\n".join(f"  {name}" for name in names)
    print(f"\n!!! Failed beside others, and run once more alone:\n{listed}\n", flush=True)
    options = [argument for argument in arguments if argument.startswith("-")]
    alone = [str(failures.root / name) for name in names]
    again = subprocess.run([sys.executable, "-m", "pytest", *options, *alone], check=False).returncode
    if again == 0:
        print(f"\n!!! Failed beside others and passed alone, each a defect to be mended:\n{listed}\n", flush=True)
    return again


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
