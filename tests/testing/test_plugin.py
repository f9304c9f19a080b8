"""The fixtures, in a pytest of their own."""

import subprocess
import sys
from pathlib import Path

SUITE = """
import sys

def test_nothing_is_loaded_before_it_is_asked_for():
    assert not [name for name in sys.modules if name.split(".")[0] in ("monedula", "pyspark", "pyarrow")]

def test_a_broker(monedula_broker):
    monedula_broker.create_topic("orders", 1)
    assert list(monedula_broker.append("orders", ["a"])) == [0]
    STARTED.append(monedula_broker)

def test_a_broker_with_a_registry(monedula_registry_broker):
    assert monedula_registry_broker.registry.register("orders-value", '"int"') == 1

def test_several_brokers(monedula_broker_factory):
    one, two = monedula_broker_factory(topics={"orders": 3}), monedula_broker_factory(nodes=2)
    assert (len(one.addresses), len(two.addresses)) == (1, 2)
    STARTED.extend([one, two])

def test_one_test_of_the_session(monedula_session_broker):
    monedula_session_broker.create_topic("first", 1)
    SHARED.append(monedula_session_broker)

def test_another_test_of_the_session(monedula_session_broker):
    assert SHARED == [monedula_session_broker]
    assert list(monedula_session_broker.append("first", ["a"])) == [0]

def test_they_stop_with_their_tests():
    from monedula import ClosedError
    for broker in STARTED:
        try:
            broker.create_topic("late")
        except ClosedError:
            continue
        raise AssertionError(broker)
    assert len(STARTED) == 3

STARTED = []
SHARED = []
"""


def test_the_fixtures_are_found_and_stop_what_they_start(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 passed" in done.stdout
