"""The figures of a landing job in Prometheus."""

from pathlib import Path

import pytest
from monedula import prometheus
from monedula.prometheus import families
from prometheus_client import CollectorRegistry

from tests.groups.ground import PATIENCE_SECONDS
from tests.landing.orders import Orders

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


def test_the_dashboard_and_the_rules_show_what_operators_of_a_job_ask_for() -> None:
    shown = prometheus.dashboard() + prometheus.alert_rules()
    for family in families.FAMILIES:
        if family.name.startswith("monedula_landing_"):
            assert family.name in shown
