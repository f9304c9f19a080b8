"""The health of a landing job over HTTP: 503 while a store is away, and 200 once it is back."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import monedula
import pytest
from monedula import prometheus
from monedula.errors import WakeupError
from monedula.landing import HealthServer

from tests.groups.ground import PATIENCE_SECONDS
from tests.landing.orders import Orders, landed
from tests.landing.store_away import store_away
from tests.landing.test_command import start

pytest.importorskip("deltalake", reason="the extra delta is not installed")

SERVICE = """
import signal, sys
import monedula
from monedula import prometheus
from monedula.landing import HealthServer

job = monedula.LandingJob(
    {settings!r}, {topic!r}, monedula.Delta({path!r}), value=monedula.Json("id bigint"),
    job="lake", every=0.1, max_commit_age=0.5,
)
signal.signal(signal.SIGTERM, lambda *_: job.stop())
with HealthServer(job, 0, address="127.0.0.1") as server:
    print(f"http://127.0.0.1:{{server.port}}/health", file=sys.stderr, flush=True)
    job.run()
"""


def ask(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def wait_for(address: str, is_so: Callable[[int, dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = monotonic() + PATIENCE_SECONDS
    while True:
        status, text = ask(address)
        health = json.loads(text)
        assert (status == 200) == health["ok"]
        if is_so(status, health):
            return dict(health)
        assert monotonic() < deadline, health


@contextmanager
def service(orders: Orders, path: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A program of a user, and the address of its health."""
    source = SERVICE.format(settings=orders.settings, topic=orders.topic, path=str(path))
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", source], env=variables, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process, address_in(process)
        finally:
            process.terminate()
            process.communicate(timeout=60)


@contextmanager
def command(orders: Orders, path: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """The same on the command line."""
    words = ("--every", "1s", "--max-commit-age", "2s", "--health-port", "127.0.0.1:0", "--job", "lake")
    decoded = ("--value", "json", "--schema", "id bigint")
    with start(orders, orders.topic, str(path), *words, *decoded) as process:
        try:
            yield process, address_in(process)
        finally:
            process.terminate()
            process.communicate(timeout=60)


def address_in(process: "subprocess.Popen[str]") -> str:
    assert process.stderr is not None
    line = process.stderr.readline()
    assert "http://" in line, line
    return line.split()[-1]


@pytest.mark.parametrize("serving", [service, command])
def test_a_store_that_is_away_is_not_healthy_until_it_is_back(orders: Orders, tmp_path: Path, serving: Any) -> None:
    path = tmp_path / "lake"
    with serving(orders, path) as (process, address):
        wait_for(address, lambda _, health: health["pending_rows"] == 0 and path.exists() and is_whole(orders, path))
        with store_away(path):
            orders.send(30)
            health = wait_for(address, lambda status, _: status == 503)
            assert health["state"] == "running"
            assert health["pending_rows"] == 30
            assert health["last_commit_ago"] > 0.5
        wait_for(address, lambda status, _: status == 200 and is_whole(orders, path))
        if serving is command:
            assert "monedula_landing_rows_total{" in ask(address.replace("/health", "/metrics"))[1]
        process.terminate()
        process.wait(timeout=60)
    assert landed(path) == orders.offsets()


def is_whole(orders: Orders, path: Path) -> bool:
    import deltalake

    try:
        return sum(map(len, landed(path).values())) == orders.count
    except (deltalake.exceptions.TableNotFoundError, deltalake.exceptions.DeltaError, OSError):
        return False


def test_a_job_that_failed_is_not_healthy_and_says_why(orders: Orders, tmp_path: Path) -> None:
    orders.send_bad()
    job = orders.job(tmp_path / "lake")
    with HealthServer(job, 0, address="127.0.0.1") as server:
        address = f"http://127.0.0.1:{server.port}"
        assert ask(f"{address}/health")[0] == 200
        job.start()
        health = wait_for(f"{address}/health?from=probe", lambda _, health: health["state"] == "failed")
        assert "offset 100" in health["error"]
    with pytest.raises(OSError, match="refused"):
        ask(f"{address}/health")


def test_the_figures_are_beside_it_and_other_paths_are_not_found(orders: Orders, tmp_path: Path) -> None:
    job = orders.job(tmp_path / "lake", settings={"client.id": orders.topic})
    with HealthServer(job, 0, address="127.0.0.1") as server:
        prometheus.watch(job)
        job.run()
        status, text = ask(f"http://127.0.0.1:{server.port}/metrics")
        (line,) = [each for each in text.splitlines() if "landing_rows_total{" in each and orders.topic in each]
        assert (status, line.split()[-1]) == (200, "300.0")
        assert ask(f"http://127.0.0.1:{server.port}/")[0] == 404
        with pytest.raises(OSError, match=f"127.0.0.1:{server.port}"):
            HealthServer(job, server.port, address="127.0.0.1")
    server.close()
    with HealthServer(job, 0, address="::1") as server:
        assert ask(f"http://[::1]:{server.port}/health")[0] == 200


@pytest.mark.parametrize("port", [-1, 70_000, "8080", None, True])
def test_a_port_is_a_number_of_one(orders: Orders, tmp_path: Path, port: Any) -> None:
    with pytest.raises(monedula.ArgumentError, match="port="):
        HealthServer(orders.job(tmp_path / "lake"), port)


def test_a_job_that_was_stopped_before_it_began_is_well(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = orders.job(tmp_path / "lake", max_commit_age=0.0)

    def wake() -> None:
        raise WakeupError("stopped")

    monkeypatch.setattr(job, "_look_ahead", wake)
    job.run()
    assert job.health()["ok"], job.health()
