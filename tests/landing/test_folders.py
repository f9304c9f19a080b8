"""Folders that take no more: a disk that is full, no permission, a table that is deleted while a job runs."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import monedula
import pytest
from monedula.errors import LandingError

from tests.landing.orders import Orders, described, landed, table_of

pytest.importorskip("deltalake", reason="the extra delta is not installed")
pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")

LIMIT_BYTES = 32768

LAND = """
import json, resource, sys
import monedula.landing.delta_table
from tests.landing.orders import Orders, made
told = json.loads(sys.argv[1])
if told["limit"]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (told["limit"], resource.RLIM_INFINITY))
monedula.landing.delta_table.ATTEMPT_PAUSES_S = (0.0, 0.1)
print(Orders(told["bootstrap"], told["topic"]).land(made(told["table"]), value=None))
"""


@pytest.fixture(params=["lake", "ice"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


def land_apart(orders: Orders, path: Path, limit: int = 0, before: tuple[str, ...] = ()) -> str:
    """Land in a process of its own, whose files may have `limit` bytes; returns what it says at its end."""
    told = {
        "bootstrap": orders.settings["bootstrap.servers"],
        "topic": orders.topic,
        "table": described(table_of(path)),
        "limit": limit,
    }
    command = [*before, sys.executable, "-c", LAND, json.dumps(told)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    return done.stderr or done.stdout


def send_large(orders: Orders) -> None:
    """Send what no file of `LIMIT_BYTES` holds."""
    with monedula.Producer(orders.settings) as producer:
        for _ in range(100):
            producer.send(orders.topic, os.urandom(2000), partition=0)


def name_of(path: Path) -> str:
    return str(path) if path.name == "lake" else "lake.orders"


def test_a_disk_that_is_full_is_told_and_the_next_job_goes_on(orders: Orders, path: Path) -> None:
    orders.land(path, value=None)
    before, files = landed(path), set(path.rglob("*.parquet"))
    send_large(orders)
    said = land_apart(orders, path, limit=LIMIT_BYTES)
    assert f"LandingError: {name_of(path)}: a data file cannot be written: " in said
    assert "File too large" in said
    assert landed(path) == before
    assert set(path.rglob("*.parquet")) == files, "what is half written takes space"
    assert "LandingResult(rows=100" in land_apart(orders, path)
    assert landed(path) == orders.offsets()


def test_a_log_without_permission_is_told_and_the_next_job_goes_on(orders: Orders, tmp_path: Path) -> None:
    path = tmp_path / "lake"
    orders.land(path, value=None)
    orders.send(3)
    before = landed(path)
    with without_write(path / "_delta_log") as words:
        said = land_apart(orders, path, before=words)
    assert f"LandingError: {path}: the commit failed: " in said
    assert "Permission denied" in said
    assert landed(path) == before
    assert orders.land(path, value=None).rows == 3
    assert landed(path) == orders.offsets()


def test_a_folder_without_permission_is_told_and_the_next_job_goes_on(orders: Orders, path: Path) -> None:
    orders.land(path, value=None)
    orders.send(3)
    with without_write(path) as words:
        said = land_apart(orders, path, before=words)
    assert f"LandingError: {name_of(path)}: a data file cannot be written: " in said
    assert "Permission denied" in said
    assert orders.land(path, value=None).rows == 3
    assert landed(path) == orders.offsets()


@contextmanager
def without_write(path: Path) -> Iterator[tuple[str, ...]]:
    """Folders in which nobody may write; yields the words before a command by which this binds root as well."""
    folders = [each for each in (path, *path.rglob("*")) if each.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    try:
        yield () if os.geteuid() else ("setpriv", "--bounding-set=-dac_override", "--")
    finally:
        for folder in folders:
            folder.chmod(0o755)


def test_a_table_that_is_deleted_while_a_job_runs_ends_it(
    orders: Orders, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monedula.landing.iceberg_table.ATTEMPT_PAUSES_S", (0.0, 0.1))
    orders.land(path, value=None)
    orders.send(3)
    job = orders.job(path, value=None)
    commit = job._commit

    def commit_to_nothing() -> None:
        folder = path if path.name == "lake" else path / "warehouse"
        while folder.exists():  # a file may be added meanwhile
            shutil.rmtree(folder, ignore_errors=True)
        monkeypatch.setattr(job, "_commit", commit)
        commit()

    monkeypatch.setattr(job, "_commit", commit_to_nothing)
    with pytest.raises(LandingError, match=r"the log has lost its version|No such file or directory"):
        job.run()
    if path.name == "lake":
        assert not (path / "_delta_log").exists(), "a log of this version alone is none"
        assert orders.land(path, value=None).rows == 303
        assert landed(path) == orders.offsets()
