"""Other clients' own test suites on embedded brokers: what passes, and what does not and why."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import give_up
from tests.interop.suites import expected
from tests.interop.suites.suite import SUITES
from tests.kafka import KafkaUnavailable

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

ROOT = Path(__file__).resolve().parents[2]


def alone(*command: str) -> list[str]:
    """The command in a network namespace of its own, since the addresses of the suites are fixed."""
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *as_root, "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *command]


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_passes_but_for_what_is_expected(name: str) -> None:
    suite = SUITES[name]
    try:
        # Fetched here: there is no way out of the namespace.
        suite.prepare()
    except KafkaUnavailable as error:
        give_up(error)
    command = alone(sys.executable, "-m", "tests.interop.suites", name)
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=2000)
    assert ran.returncode == 0, ran.stderr[-4000:]
    outcomes: dict[str, str] = json.loads(ran.stdout.splitlines()[-1])
    failed = {test for test, outcome in outcomes.items() if outcome == "failed"}
    reasons = expected.EXPECTED[name]
    unexpected = sorted(test for test in failed if not any(_covers(pattern, test) for pattern in reasons))
    assert not unexpected, f"{len(failed)} of {len(outcomes)} failed, and these are not expected: {unexpected}"
    passed = {test for test, outcome in outcomes.items() if outcome == "passed"}
    assert len(passed) > len(failed), outcomes


def _covers(pattern: str, test: str) -> bool:
    return test.startswith(pattern[:-1]) if pattern.endswith("*") else test == pattern
