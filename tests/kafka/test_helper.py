"""The Java helper answers the current command, whatever happened to those before it."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import pytest

from tests.kafka import HelperError, KafkaError, KafkaHelper
from tests.kafka.embedded import EmbeddedCluster
from tests.kafka.helper_process import HelperProcess
from tests.kafka.tools import Record
from tests.standing import stand_still

STALLED_SECONDS = 1.0

pytestmark = pytest.mark.jvm


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        for partitions in (1, 2, 3):
            cluster.helper.create_topic(f"of-{partitions}", partitions=partitions)
        yield cluster


@pytest.fixture(scope="module")
def helper(cluster: EmbeddedCluster) -> Iterator[KafkaHelper]:
    """Java's: the cluster's own is librdkafka."""
    helper = KafkaHelper(cluster.bootstrap)
    yield helper
    helper.close()


@pytest.fixture
def impatient(helper: KafkaHelper, monkeypatch: pytest.MonkeyPatch) -> KafkaHelper:
    """The same, with little time for each answer."""
    monkeypatch.setattr(helper._process, "_answer_timeout_seconds", STALLED_SECONDS)
    return helper


class CutOffError(Exception):
    """Raised amid a wait, as pytest-timeout does."""


@contextmanager
def cut_off_after(seconds: float) -> Iterator[None]:
    def cut_off(_number: int, _frame: FrameType | None) -> None:
        raise CutOffError

    before = signal.signal(signal.SIGUSR2, cut_off)
    # Not SIGALRM, which is pytest-timeout's own.
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGUSR2))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        signal.signal(signal.SIGUSR2, before)


def pid_of(helper: KafkaHelper) -> int:
    pid = helper.pid
    assert pid > 1  # -1 would be every process
    return pid


def freeze(helper: KafkaHelper) -> int:
    """Freeze its JVM; returns its pid."""
    pid = pid_of(helper)
    stand_still(pid)
    return pid


def go_on(pid: int) -> None:
    """Resume a stalled process, which may be gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def assert_answers_fit(helper: KafkaHelper) -> None:
    for _ in range(2):
        for partitions in (3, 1, 2):
            assert len(helper.describe_topic(f"of-{partitions}").partitions) == partitions


@pytest.mark.parametrize("times", [1, 3])
def test_a_test_that_was_cut_off_does_not_shift_the_answers_of_later_ones(helper: KafkaHelper, times: int) -> None:
    for _ in range(times):
        stalled = freeze(helper)
        try:
            with pytest.raises(CutOffError), cut_off_after(0.2):
                helper.describe_topic("of-1")
        finally:
            go_on(stalled)
    assert_answers_fit(helper)


def test_a_helper_that_timed_out_is_replaced(impatient: KafkaHelper, monkeypatch: pytest.MonkeyPatch) -> None:
    stalled = freeze(impatient)
    with pytest.raises(KafkaError, match=r"describe_topic: no answer from the helper JVM within 1\.0 s"):
        impatient.describe_topic("of-1")
    monkeypatch.undo()
    assert_answers_fit(impatient)
    assert impatient.pid != stalled


@pytest.mark.parametrize("size", [1, 10_000_000], ids=["small", "larger than a pipe holds"])
def test_a_helper_that_does_not_read_is_no_hang(impatient: KafkaHelper, size: int) -> None:
    freeze(impatient)
    with pytest.raises(KafkaError, match="produce: no answer"):
        impatient.produce("of-1", [{"value": b"x" * size}])


def test_a_helper_that_was_killed_is_replaced(helper: KafkaHelper) -> None:
    for _ in range(2):
        os.kill(pid_of(helper), signal.SIGKILL)
        # Seen at once, or only in the midst of the command.
        with suppress(KafkaError):
            helper.describe_topic("of-1")
        assert_answers_fit(helper)


def test_what_a_lost_helper_left_open_is_named(helper: KafkaHelper) -> None:
    helper.produce("of-1", [{"value": "open"}], transaction="open", transactional_id="left")
    freeze(helper)
    with pytest.raises(CutOffError), cut_off_after(0.2):
        helper.end_transaction("left", "commit")
    with pytest.raises(HelperError, match="no open transaction of left"):
        helper.end_transaction("left", "commit")


def test_a_large_answer_and_a_large_command_go_through(helper: KafkaHelper) -> None:
    helper.create_topic("large")
    records: list[Record] = [{"value": b"x" * 1000} for _ in range(5000)]
    placed = helper.produce("large", records)
    assert [each.offset for each in placed] == list(range(5000))


@pytest.mark.parametrize("wrong", [0, 2, None])
def test_an_answer_with_another_number_is_refused(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch, wrong: int | None
) -> None:
    process = HelperProcess(cluster.bootstrap)
    read: Callable[[str, bytes, float], bytes] = process._written_and_read

    def misnumbered(command: str, line: bytes, timeout_seconds: float) -> bytes:
        read(command, line, timeout_seconds)
        return b'{"id": %s, "ok": {}}' % (b"null" if wrong is None else str(wrong).encode())

    monkeypatch.setattr(process, "_written_and_read", misnumbered)
    try:
        with pytest.raises(KafkaError, match=f"the helper JVM answered {wrong}, not 1"):
            process.run("describe_topic", {"topic": "of-1"})
        assert process._process is None
    finally:
        process.close()
