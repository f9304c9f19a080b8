"""docs/landing.md: its examples run as they stand, and its service is stopped by SIGTERM."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import monedula
import polars
import pytest
from monedula.testing import Broker

from tests.landing.orders import Orders, landed

pytest.importorskip("deltalake", reason="the extra delta is not installed")
pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")

GUIDE = Path(__file__).resolve().parents[2] / "docs/landing.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
(SERVICE,) = re.findall(r"```python service\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
LINES = re.findall(r"^monedula .*$", GUIDE.read_text(), flags=re.MULTILINE)


@pytest.fixture
def orders(broker: Broker) -> Orders:
    broker.create_topic("orders", 2)
    broker.create_topic("payments", 1)
    made = Orders(broker.bootstrap_servers, "orders")
    made.send(40)
    broker.append("payments", ['{"id": 1}', "{broken"])
    broker.create_topic("shop.orders", 1)
    broker.append(
        "shop.orders",
        [('{"id": 2}', '{"op": "r", "before": null, "after": {"id": 2, "amount": 1.0}, "ts_ms": 1700000000000}')],
    )
    return made


def test_the_examples_run_one_after_another(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"monedula": monedula, "polars": polars, "settings": orders.settings}
    for source in EXAMPLES:
        on_loopback = source.replace("HealthServer(job, 8080)", "HealthServer(job, 0, address='127.0.0.1')")
        exec(compile(on_loopback, str(GUIDE), "exec"), names)
    assert landed("lake/orders") == landed("lake/daily") == landed("lake/probed") == orders.offsets()
    assert sorted(names["history"]["id"]) == [1, 2]
    assert landed("lake/some") == {0: list(range(2, 20))}
    assert names["bad"]["_raw"].to_list() == [{"key": None, "value": b"{broken"}]
    assert "shape" in capsys.readouterr().out


def test_the_commands_run(orders: Orders, tmp_path: Path) -> None:
    variables = {
        **os.environ,
        "MONEDULA_BOOTSTRAP_SERVERS": orders.settings["bootstrap.servers"],
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    for line in LINES:
        command = line.replace("monedula ", f"{sys.executable} -m monedula ")
        done = subprocess.run(command, shell=True, cwd=tmp_path, env=variables, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr.decode()
    assert landed(tmp_path / "lake/orders") == orders.offsets()
    assert polars.read_delta(str(tmp_path / "lake/shop"))["key"].to_list() == [{"id": 2}]


def test_the_service_commits_what_it_has_when_it_is_asked_to_end(orders: Orders, tmp_path: Path) -> None:
    (tmp_path / "settings.py").write_text(f"settings = {orders.settings!r}\n")
    (tmp_path / "service.py").write_text(SERVICE.replace("every=60.0", "every=0.05"))
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-W", "error", "service.py"], cwd=tmp_path, env=variables, stdout=subprocess.PIPE, text=True
    ) as service:
        assert service.stdout is not None
        seen = 0
        while seen < orders.count:
            seen += int(service.stdout.readline().split()[0])
        service.send_signal(signal.SIGTERM)
        assert "LandingResult(rows=40" in service.stdout.read()
    assert service.returncode == 0
    assert landed(tmp_path / "lake/service") == orders.offsets()
