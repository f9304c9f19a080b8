"""Topics land in tables of a REST catalog: that of Iceberg's own tests, in a JVM."""

from collections.abc import Iterator

import pytest
from monedula.landing import Iceberg, check

from tests.conftest import skip_loudly
from tests.kafka import KafkaUnavailable
from tests.landing.http_relay import Fault, HttpRelay
from tests.landing.orders import Orders, iceberg_table, landed
from tests.landing.race import race
from tests.landing.servers import Server, iceberg_rest

pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")

pytestmark = pytest.mark.jvm

COMMIT = "POST .*/tables/orders"


@pytest.fixture(scope="module")
def catalog_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    try:
        server = iceberg_rest(tmp_path_factory.mktemp("rest"))
    except KafkaUnavailable as error:
        skip_loudly("TESTS ON ICEBERG'S REST CATALOG ARE SKIPPED", str(error))
    with server:
        yield server


@pytest.fixture
def catalog_relay(catalog_server: Server) -> Iterator[HttpRelay]:
    with HttpRelay(catalog_server.port) as relay:
        yield relay


@pytest.fixture
def table(catalog_relay: HttpRelay, orders: Orders) -> Iceberg:
    """A new table."""
    namespace = orders.topic.replace("-", "_")
    return Iceberg(f"{namespace}.orders", catalog={"type": "rest", "uri": catalog_relay.url})


def test_each_record_is_a_row_and_a_second_run_goes_on(orders: Orders, table: Iceberg) -> None:
    assert orders.land(table).rows == 300
    orders.send(30)
    assert orders.land(table).rows == 30
    assert landed(table) == orders.offsets()
    assert check(orders.settings, orders.topic, table, job="lake").ok


def test_two_workers_with_the_same_partitions_repeat_nothing(orders: Orders, table: Iceberg) -> None:
    orders.job(table, until="2020-01-01T00:00:00Z").run()
    assert race(orders, table) > 0, "they did not meet"
    assert landed(table) == orders.offsets()


STATUSES = [500, *(pytest.param(status, marks=pytest.mark.thorough) for status in (502, 503, 504, None))]


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("is_carried_out", [True, False], ids=["carried out", "not carried out"])
def test_a_commit_of_which_the_state_is_unknown_is_looked_up(
    orders: Orders, table: Iceberg, catalog_relay: HttpRelay, status: int | None, is_carried_out: bool
) -> None:
    orders.job(table, until="2020-01-01T00:00:00Z").run()
    before = len(iceberg_table(table).snapshots())
    catalog_relay.set(Fault(COMMIT, times=1, carries_out=is_carried_out, status=status, body="{}"))
    result = orders.land(table)
    assert catalog_relay.counts() == {COMMIT: 1}
    assert (result.rows, result.conflicts) == (300, 0)
    assert len(iceberg_table(table).snapshots()) == before + 1
    assert landed(table) == orders.offsets()
