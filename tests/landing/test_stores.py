"""Topics land in S3 and Azure as they do in folders: what users see, workers that race, and answers that are lost."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from monedula.landing import Delta, Iceberg, check
from monedula.landing.commits import PendingCommit

from tests.groups.ground import Ground
from tests.landing.http_relay import Fault, HttpRelay
from tests.landing.orders import Orders, Target, landed
from tests.landing.race import race
from tests.landing.stores import SECRET, AzureStore, S3Store
from tests.landing.worker import class_of

pytest.importorskip("deltalake", reason="the extra delta is not installed")
pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")

TABLES = ["s3-delta", "s3-glue", "azure-delta"]
VARIANTS = [pytest.param(each, marks=pytest.mark.thorough) for each in ("s3-iceberg", "azure-iceberg")]


@pytest.fixture(params=[*TABLES, *VARIANTS])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    """A new table in each store, of each format."""
    name, form = request.param.split("-")
    store: Any = (
        S3Store(request.getfixturevalue("moto_server"))
        if name == "s3"
        else AzureStore(request.getfixturevalue("azurite_server"))
    )
    made: Target = store.iceberg(tmp_path) if form == "iceberg" else store.glue() if form == "glue" else store.delta()
    return made


def test_each_record_is_a_row_and_a_second_run_goes_on(orders: Orders, table: Target) -> None:
    result = orders.land(table)
    assert (result.rows, result.conflicts) == (300, 0)
    orders.send(30)
    assert orders.land(table).rows == 30
    assert landed(table) == orders.offsets()
    found = check(orders.settings, orders.topic, table, job="lake")
    assert found.ok
    assert sum(each.rows for each in found.partitions.values()) == 330


def test_two_workers_with_the_same_partitions_repeat_nothing(orders: Orders, table: Target) -> None:
    orders.job(table, until="2020-01-01T00:00:00Z").run()  # the table is there, and its partitions begin
    assert race(orders, table) > 0, "they did not meet"
    assert landed(table) == orders.offsets()


@pytest.mark.parametrize("is_written", [True, False], ids=["written", "not written"])
def test_a_commit_whose_answer_is_lost_is_looked_up(
    orders: Orders, table: Target, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    kind = class_of(table)
    write = kind._write
    left = [1]

    def lose(self: Any, pending: PendingCommit) -> None:
        is_lost = bool(pending.files and left and left.pop())
        if is_written or not is_lost:
            write(self, pending)
        if is_lost:
            raise OSError("the connection was reset")

    monkeypatch.setattr(kind, "_write", lose)
    assert orders.land(table).rows == 300
    assert not left
    assert landed(table) == orders.offsets()


def test_requests_do_not_grow_with_the_partitions(ground: Ground, relayed: S3Store, relay: HttpRelay) -> None:
    reads = "(GET|HEAD) .*_delta_log.*json"
    counted = []
    for partitions in (2, 20):
        made, table = Orders(ground.bootstrap, ground.topic(partitions)), relayed.delta()
        made.land(table)
        made.send(partitions)
        # Passed on, and counted.
        relay.set(Fault(reads, delay_seconds=0.0001, carries_out=True))
        assert made.land(table).rows == partitions
        counted.append(relay.counts()[reads])
        relay.set()
    assert counted[1] < counted[0] + 20


def test_the_command_takes_options_of_the_store(orders: Orders, s3: S3Store) -> None:
    table = s3.delta()
    options = [
        word
        for name, value in table.storage_options.items()
        if "KEY" not in name
        for word in ("--storage-option", f"{name}={value}")
    ]
    said = command(orders, orders.topic, table.path, "--until", "now", *options)
    assert said == "300 rows: 1 file, 1 commit\n"
    command(orders, "check", table.path, "--topic", orders.topic, *options)
    assert landed(table) == orders.offsets()


def command(orders: Orders, *words: str) -> str:
    variables = {
        **os.environ,
        "MONEDULA_BOOTSTRAP_SERVERS": orders.settings["bootstrap.servers"],
        "PYTHONPATH": os.pathsep.join(sys.path),
        "AWS_ACCESS_KEY_ID": "access",
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }
    run = [sys.executable, "-m", "monedula", "land", *words]
    done = subprocess.run(run, env=variables, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_tables_show_no_secrets(table: Target) -> None:
    told: Any = table.storage_options if isinstance(table, Delta) else table.catalog
    secrets = [value for name, value in told.items() if "key" in name.lower()]
    assert secrets
    assert isinstance(table, Delta | Iceberg)
    assert not any(secret in repr(table) for secret in secrets)
