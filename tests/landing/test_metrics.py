"""The figures of a landing job in Prometheus, and when its alerts fire."""

import re
from pathlib import Path
from typing import Any

import monedula
import pytest
from monedula import prometheus
from monedula.landing import LandingCommit
from monedula.prometheus import families
from prometheus_client import CollectorRegistry

from tests.groups.ground import PATIENCE_SECONDS, Ground
from tests.landing.orders import ORDER, Orders

pytest.importorskip("deltalake", reason="the extra delta is not installed")


def test_a_job_has_its_families(orders: Orders, tmp_path: Path) -> None:
    registry = CollectorRegistry()
    orders.send_bad()
    job = orders.job(tmp_path / "lake", bad_records="column")
    prometheus.watch(job, registry=registry)
    job.run()
    counted = job.metrics()
    landing = [family for family in families.FAMILIES if family.name.startswith("monedula_landing_")]
    assert {family.source for family in landing} == {name for name in counted if name.startswith("landing_")}
    labels = {"role": "consumer", "client_id": "monedula", "group": "lake"}
    assert registry.get_sample_value("monedula_landing_rows_total", labels) == 301
    assert registry.get_sample_value("monedula_landing_bad_records_total", labels) == 1
    assert registry.get_sample_value("monedula_landing_pending_rows", labels) == 0
    # From the newest record of the last commit to that commit.
    assert 0 < counted["landing_freshness_seconds"] < PATIENCE_SECONDS
    assert (
        registry.get_sample_value("monedula_landing_freshness_seconds", labels) == counted["landing_freshness_seconds"]
    )


def test_dead_letters_are_counted_where_bad_records_are(orders: Orders, ground: Ground, tmp_path: Path) -> None:
    failed = ground.topic(1)
    for _ in range(3):
        orders.send_bad()
    commits: list[LandingCommit] = []
    job = orders.job(tmp_path / "lake", value=monedula.Json(ORDER, dead_letter=failed), on_commit=commits.append)
    result = job.run()
    assert (result.rows, result.bad_records, result.dead_letters) == (300, 0, 3)
    assert sum(commit.dead_letters for commit in commits) == 3
    assert job.metrics()["landing_dead_letters"] == job.health()["dead_letters"] == 3
    with monedula.read(orders.settings, failed) as stream:
        assert sum(map(len, stream)) == 3


def test_dead_letters_of_rows_that_are_read_anew_are_counted_once(
    orders: Orders, ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = ground.topic(1)
    orders.send_bad()
    job = orders.job(tmp_path / "lake", value=monedula.Json(ORDER, dead_letter=failed))
    commit, conflicts = type(job._table).commit, [True]

    def lose(table: Any, pending: Any) -> bool:
        return not (pending.files and conflicts and conflicts.pop()) and commit(table, pending)

    monkeypatch.setattr(type(job._table), "commit", lose)
    result = job.run()
    assert (result.rows, result.conflicts, result.dead_letters) == (300, 1, 1)


HOUR = 3600.0
QUIET = {"pending_seconds": 0.0, "freshness_seconds": 5.0, "last_commit_seconds": 30.0}


@pytest.mark.parametrize(
    ("interval", "figures", "alerts"),
    [
        (60.0, {}, set()),
        (60.0, {"pending_seconds": 800.0}, set()),
        (60.0, {"pending_seconds": 1000.0}, {"Stands"}),
        (60.0, {"freshness_seconds": 1000.0}, {"IsLate"}),
        (60.0, {"freshness_seconds": 1000.0, "last_commit_seconds": 1000.0}, set()),  # nothing comes any more
        (HOUR, {"pending_seconds": 3500.0, "last_commit_seconds": 3500.0}, set()),
        (HOUR, {"pending_seconds": 3500.0, "last_commit_seconds": 8 * HOUR}, set()),  # after a quiet night
        (HOUR, {"pending_seconds": 4600.0, "last_commit_seconds": 4600.0}, {"Stands"}),
        (HOUR, {"freshness_seconds": 3500.0, "last_commit_seconds": 3500.0}, set()),
        (HOUR, {"freshness_seconds": 5 * HOUR, "last_commit_seconds": 3500.0}, {"IsLate"}),
        (HOUR, {"freshness_seconds": 5 * HOUR, "last_commit_seconds": 2 * HOUR}, set()),
    ],
)
def test_alerts_heed_how_often_a_job_commits(interval: float, figures: dict[str, float], alerts: set[str]) -> None:
    from ruamel.yaml import YAML

    told = {"commit_interval_seconds": interval, **QUIET, **figures}
    fired = set()
    for rule in YAML(typ="safe").load(prometheus.alert_rules())["groups"][0]["rules"]:
        name = rule["alert"].removeprefix("MonedulaLanding")
        if name in ("Stands", "IsLate"):
            # Of one job an aggregate is its value, and operators bind as Python's.
            formula = re.sub(r"max by \([^)]*\) \(monedula_landing_(\w+)\)", r"told['\1']", rule["expr"])
            if eval(formula, {"told": told}):
                fired.add(name)
    assert fired == alerts


def test_the_dashboard_and_the_rules_show_what_operators_of_a_job_ask_for() -> None:
    shown = prometheus.dashboard() + prometheus.alert_rules()
    for family in families.FAMILIES:
        if family.name.startswith("monedula_landing_"):
            assert family.name in shown
