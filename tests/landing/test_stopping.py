"""The end of a job whose store, or catalog, does not answer, and its membership while a commit takes long."""

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import monedula
import pytest
from monedula.errors import LandingError
from monedula.landing import LandingCommit, LandingJob, attempts
from monedula.landing.attempts import Attempts
from monedula.testing import Broker

from tests.groups.ground import PATIENCE_SECONDS
from tests.landing.orders import ORDER, Orders, landed, table_of
from tests.landing.store_away import store_away
from tests.landing.test_command import run, start
from tests.landing.worker import class_of

pytest.importorskip("deltalake", reason="the extra delta is not installed")
pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")

Steps = Callable[[Any, Any], None]
FOREVER = (0.0, *[3600.0] * 10)


def replace_step(monkeypatch: pytest.MonkeyPatch, path: Path, name: str, step: Steps) -> None:
    """Have a step of the table's commits be another one, for commits of rows."""
    table = class_of(table_of(path))
    usual = getattr(table, name)
    monkeypatch.setattr(table, name, lambda self, of: step(self, of) if getattr(of, "files", True) else usual(self, of))


@pytest.mark.parametrize("folder", ["lake", "ice"])
@pytest.mark.parametrize("is_away", [True, False])
def test_a_pause_ends_when_the_job_is_stopped(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, is_away: bool
) -> None:
    """Pauses take an hour here: the job ends, or commits, only if the stop ends them."""
    orders.land(tmp_path / folder)
    orders.send(30)
    failing = threading.Event()
    write = class_of(table_of(tmp_path / folder))._write

    def fail(table: Any, pending: Any) -> None:
        if is_away or not failing.is_set():
            failing.set()
            raise OSError("the store is away")
        write(table, pending)

    module = "delta_table" if folder == "lake" else "iceberg_table"
    with monkeypatch.context() as patch:
        replace_step(patch, tmp_path / folder, "_write", fail)
        patch.setattr(f"monedula.landing.{module}.ATTEMPT_PAUSES_S", FOREVER)
        patch.setattr(attempts, "STOP_SECONDS", 2.0)
        job = orders.job(tmp_path / folder, until=None, every=0.05)
        job.start()
        assert failing.wait(PATIENCE_SECONDS)
        job.stop()
        if is_away:
            with pytest.raises(LandingError, match="the commit failed: the store is away"):
                job.wait(PATIENCE_SECONDS)
        else:
            assert job.wait(PATIENCE_SECONDS) is not None
    orders.land(tmp_path / folder)
    assert landed(tmp_path / folder) == orders.offsets()


@pytest.mark.parametrize("folder", ["lake", "ice"])
def test_attempts_of_a_commit_and_looks_for_it_are_bounded_together(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    module = "delta_table" if folder == "lake" else "iceberg_table"
    looks = [0]

    def fail(*_: object) -> None:
        raise OSError("the store is away")

    def not_found(*_: object) -> None:
        looks[0] += 1

    with monkeypatch.context() as patch:
        replace_step(patch, tmp_path / folder, "_write", fail)
        table = class_of(table_of(tmp_path / folder))
        look = table._look
        patch.setattr(table, "_look", lambda self, of: not_found() if of else look(self, of))
        patch.setattr(f"monedula.landing.{module}.ATTEMPT_PAUSES_S", (0.0, *[0.01] * 100_000))
        patch.setattr(attempts, "COMMIT_SECONDS", 0.2)
        with pytest.raises(LandingError, match="the commit failed: the store is away"):
            orders.land(tmp_path / folder)
    assert 1 < looks[0] < 1000
    orders.land(tmp_path / folder)
    assert landed(tmp_path / folder) == orders.offsets()


def test_pauses_of_workers_differ_and_a_step_within_a_step_has_the_time_of_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paused: list[float] = []
    monkeypatch.setattr(Attempts, "_pause", lambda _, seconds: paused.append(seconds))
    monkeypatch.setattr(attempts, "COMMIT_SECONDS", 0.0)
    made = Attempts()
    assert len(list(made.after((0.0, 1.0, 1.0, 1.0)))) == 4
    assert len(set(paused)) == 4
    with made.bounded():
        for _ in made.after((0.0, 1.0)):
            assert len(list(made.after((0.0, 1.0)))) == 1
    assert len(paused) == 6


@pytest.mark.parametrize("is_back", [True, False])
def test_sigterm_ends_a_command_whose_store_is_away_and_commits_when_it_is_back(
    orders: Orders, tmp_path: Path, is_back: bool
) -> None:
    path = tmp_path / "lake"
    words = (orders.topic, str(path), "--every", "1s", "--health-port", "127.0.0.1:0", "--job", "lake")
    with start(orders, *words) as process:
        assert process.stderr is not None
        while not path.exists() or sum(map(len, landed_or_nothing(path).values())) < orders.count:
            assert process.poll() is None
        with store_away(path):
            known = len(list(path.glob("*.parquet")))
            orders.send(30)
            while len(list(path.glob("*.parquet"))) == known:  # written, and their commit is tried
                assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            if not is_back:
                _, said = process.communicate(timeout=60)
        if is_back:
            _, said = process.communicate(timeout=60)
    if is_back:
        assert process.returncode == 128 + signal.SIGTERM, said
        assert sum(map(len, landed(path).values())) == orders.count
    else:
        assert process.returncode == 1
        assert f"land topic: {path}" in said
        assert "Traceback" not in said
    run(orders, orders.topic, str(path), "--until", "now", "--job", "lake")
    assert landed(path) == orders.offsets()


def landed_or_nothing(path: Path) -> dict[int, list[int]]:
    import deltalake

    try:
        return landed(path)
    except (deltalake.exceptions.TableNotFoundError, deltalake.exceptions.DeltaError, OSError):
        return {}


def test_the_membership_lives_while_commits_fail_for_longer_than_a_session(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = class_of(table_of(tmp_path / "lake"))._write
    seen: list[tuple[float, int | None]] = []

    def fail(table: Any, pending: Any) -> None:
        seen.append((monotonic(), job._consumer.generation()))
        if monotonic() < seen[0][0] + 3.0:
            raise OSError("the store is away")
        write(table, pending)

    replace_step(monkeypatch, tmp_path / "lake", "_write", fail)
    job = orders.job(tmp_path / "lake", settings={"session.timeout.ms": 1000, "heartbeat.interval.ms": 100})
    result = job.run()
    assert (result.rows, result.conflicts) == (300, 0)
    assert len({generation for _, generation in seen}) == 1
    assert landed(tmp_path / "lake") == orders.offsets()


@pytest.mark.parametrize("folder", ["lake", "ice"])
def test_a_commit_that_takes_longer_than_the_poll_interval_repeats_nothing(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """The group takes the worker's partitions away meanwhile, and another one lands them."""
    write = class_of(table_of(tmp_path / folder))._write
    slow = threading.current_thread()
    others: list[int] = []

    def wait_for_another(table: Any, pending: Any) -> None:
        if threading.current_thread() is slow and not others:
            other = threading.Thread(target=lambda: others.append(orders.land(tmp_path / folder).rows))
            other.start()
            other.join(PATIENCE_SECONDS)
        write(table, pending)

    replace_step(monkeypatch, tmp_path / folder, "_write", wait_for_another)
    committed: list[LandingCommit] = []
    settings = {"session.timeout.ms": 1000, "heartbeat.interval.ms": 100, "max.poll.interval.ms": 1000}
    job = orders.job(tmp_path / folder, until=None, every=0.05, on_commit=committed.append, settings=settings)
    more = threading.Thread(target=lambda: stop_after_more(job, orders, tmp_path / folder, others))
    more.start()
    result = job.run()
    more.join()
    assert others == [300]
    assert result.conflicts == 1
    assert landed(tmp_path / folder) == orders.offsets()


def stop_after_more(job: LandingJob, orders: Orders, path: Path, others: list[int]) -> None:
    """Send more once another worker has landed what there was, and stop the job once it has landed that."""
    send_more(orders, others)
    wait_for_rows(orders, path)
    job.stop()


def send_more(orders: Orders, others: list[int]) -> None:
    deadline = monotonic() + PATIENCE_SECONDS
    while not others and monotonic() < deadline:
        threading.Event().wait(0.05)
    orders.send(30)


def wait_for_rows(orders: Orders, path: Path) -> None:
    deadline = monotonic() + PATIENCE_SECONDS
    while sum(map(len, landed(path).values())) < orders.count and monotonic() < deadline:
        threading.Event().wait(0.05)


def test_the_package_says_when_a_stop_is_over() -> None:
    guide = (Path(__file__).resolve().parents[2] / "docs/landing.md").read_text()
    assert f"{attempts.COMMIT_SECONDS:.0f} s" in guide
    assert f"{attempts.STOP_SECONDS:.0f} s" in guide


@pytest.mark.parametrize("api", ["Metadata", "ListOffsets", "OffsetFetch", "FindCoordinator"])
def test_a_job_that_begins_is_stopped_while_its_brokers_do_not_answer(broker: Broker, tmp_path: Path, api: str) -> None:
    broker.create_topic("orders", 2)
    made = Orders(broker.bootstrap_servers, "orders")
    made.send(20)
    with broker.fault(api=api, drop=True) as mute:
        job = made.job(tmp_path / "lake", until=None)
        job.start()
        mute.wait(timeout=PATIENCE_SECONDS)
        job.stop()
        assert job.wait(attempts.STOP_SECONDS) is not None
    assert job.health()["state"] == "ended"
    assert made.land(tmp_path / "lake").rows == 20


def test_a_job_is_stopped_while_its_dead_letters_are_not_taken(broker: Broker, tmp_path: Path) -> None:
    """Their batch is not committed, so they are written again."""
    broker.create_topic("orders", 1)
    broker.create_topic("failed", 1)
    made = Orders(broker.bootstrap_servers, "orders")
    made.send_bad()
    options: dict[str, Any] = {"value": monedula.Json(ORDER, dead_letter="failed")}
    with broker.fault(api="Produce", topic="failed", drop=True) as mute:
        job = made.job(tmp_path / "lake", until=None, **options)
        job.start()
        mute.wait(timeout=PATIENCE_SECONDS)
        job.stop()
        assert job.wait(2 * attempts.STOP_SECONDS) is not None
    assert made.land(tmp_path / "lake", **options).dead_letters == 1
