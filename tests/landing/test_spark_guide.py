"""docs/landing-or-spark.md: its programs run as they stand, are killed and begin again, and no row is there twice."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import monedula
import polars
import pytest

from tests.groups.ground import Ground
from tests.landing.orders import Orders, landed
from tests.spark._support.driver import Driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("deltalake", reason="the extra delta is not installed")
pytest.importorskip("pyspark", reason="the extra spark is not installed")

pytestmark = pytest.mark.jvm

GUIDE = Path(__file__).resolve().parents[2] / "docs/landing-or-spark.md"
APPEND, MERGE = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)

Of = Callable[[str], str]


@pytest.fixture
def made(ground: Ground) -> Orders:
    return Orders(ground.bootstrap, ground.topic(2))


@pytest.fixture
def of_test(made: Orders, tmp_path: Path) -> Of:
    """Puts the broker, topic and folder of the test into a program of the page."""

    def replace(source: str) -> str:
        source = source.replace("localhost:9092", made.settings["bootstrap.servers"]).replace("/data", str(tmp_path))
        return source.replace('"orders"', f'"{made.topic}"')

    return replace


@pytest.fixture
def driver(tmp_path: Path, delta_conf: dict[str, str]) -> Iterator[Callable[[str], Driver]]:
    """Runs a program in a process of its own."""
    started: list[Driver] = []

    def start(source: str) -> Driver:
        directory = tmp_path / f"driver-{len(started)}"
        directory.mkdir()
        started.append(Driver(directory, "example", {"source": source}, conf=delta_conf))
        return started[-1]

    yield start
    for each in started:
        each.kill()


def test_spark_goes_on_with_the_table_of_a_landing_job(
    spark: "SparkSession", made: Orders, of_test: Of, tmp_path: Path
) -> None:
    made.send(40)
    path, checkpoint = tmp_path / "orders", tmp_path / "checkpoints/orders"
    monedula.land(made.settings, made.topic, monedula.Delta(path), until="latest")
    made.send(20)
    run(of_test(APPEND), spark)
    assert landed(path) == made.offsets()
    # As if the query had been killed after its commit to the table, before that to the checkpoint.
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    made.send(20)
    run(of_test(APPEND), spark)
    assert landed(path) == made.offsets()


def test_a_merge_counts_each_micro_batch_once_that_was_killed(
    made: Orders, of_test: Of, driver: Callable[[str], Driver], tmp_path: Path
) -> None:
    """Killed when the merge is in the table, and the checkpoint does not know."""
    send_of_customers(made, 40)
    source = of_test(MERGE)
    killed = driver(source.replace(".foreachBatch(add)", ".foreachBatch(held(add))"))
    assert killed.wait_for("held")["batch_id"] == 0
    killed.kill()
    assert totals(tmp_path) == {"c0": 20.0, "c1": 20.0}
    send_of_customers(made, 10)
    driver(source).finish()
    assert totals(tmp_path) == {"c0": 25.0, "c1": 25.0}


@pytest.mark.slow
def test_planted_a_merge_without_its_transaction_counts_twice(
    made: Orders, of_test: Of, driver: Callable[[str], Driver], tmp_path: Path
) -> None:
    send_of_customers(made, 40)
    source = re.sub(r" +session\.conf\.set.*\n", "", of_test(MERGE))
    killed = driver(source.replace(".foreachBatch(add)", ".foreachBatch(held(add))"))
    killed.wait_for("held")
    killed.kill()
    driver(source).finish()
    assert totals(tmp_path) == {"c0": 40.0, "c1": 40.0}


def run(source: str, spark: "SparkSession") -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    exec(compile(source, str(GUIDE), "exec"), names)
    assert names["spark"] is spark


def send_of_customers(made: Orders, count: int) -> None:
    with monedula.Producer(made.settings) as producer:
        for number in range(count):
            producer.send(made.topic, f'{{"customer": "c{number % 2}", "amount": 1.0}}', partition=number % 2)


def totals(path: Path) -> dict[str, float]:
    return dict(polars.read_delta(str(path / "totals")).rows())
