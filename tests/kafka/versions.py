"""Runs a selection of the tests on each Apache Kafka that the client is held to, one after the other.

```sh
python -m tests.kafka.versions              # all of them
python -m tests.kafka.versions 3.9.2 -x     # one; options of pytest go on to it
```

Jars come through Maven and are kept, as those of the newest Kafka are. What a broker does not have (KIP-848 before 4.0)
is left out by the tests themselves.
"""

import argparse
import os
import subprocess
import sys
import time

from tests.kafka import jars

RUN_TIMEOUT_SECONDS = 3600

VERSIONS = ("3.7.2", "3.9.2", "4.0.2", "4.4.0")
"""The oldest that is supported, the last with ZooKeeper, the first without its old versions, the newest."""

SELECTION = (
    "tests/consumer/test_batches.py",
    "tests/consumer/test_offsets.py",
    "tests/consumer/test_positions.py",
    "tests/real/test_codecs.py",
    "tests/real/test_group_offsets.py",
    "tests/real/test_leaders.py",
    "tests/real/test_topics.py",
    "tests/real/test_transactions.py",
    "tests/groups/test_commits.py",
    "tests/groups/test_members.py",
    "tests/producer/test_batches.py",
    "tests/producer/test_send.py",
    "tests/producer/test_transactions.py",
    "tests/admin",
)
"""Reading, groups, producing, transactions and administration, where versions differ."""


def main() -> None:
    """Run, and print the versions that passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.versions", description=__doc__)
    parser.add_argument("versions", nargs="*", metavar="version", help=f"{', '.join(VERSIONS)} by default")
    options, pytest_options = parser.parse_known_args()
    passed = {version: run(version, pytest_options) for version in options.versions or VERSIONS}
    for version, has in passed.items():
        print(f"Kafka {version}: {'passed' if has else 'FAILED'}", flush=True)
    raise SystemExit(not all(passed.values()))


def run(version: str, pytest_options: list[str]) -> bool:
    """Whether the selection passed on this Kafka."""
    print(f"=== Kafka {version}", flush=True)
    begun = time.monotonic()
    environment = {**os.environ, jars.VERSION_VARIABLE: version}
    command = [sys.executable, "-m", "pytest", "--on", "kafka", *pytest_options, *SELECTION]
    ran = subprocess.run(command, cwd=jars.REPOSITORY_ROOT, env=environment, timeout=RUN_TIMEOUT_SECONDS)
    print(f"Kafka {version}: {time.monotonic() - begun:.0f} s", flush=True)
    return ran.returncode == 0


if __name__ == "__main__":
    main()
