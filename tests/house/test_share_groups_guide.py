"""docs/share-groups.md: its examples run as they stand."""

import re
from collections.abc import Iterator
from pathlib import Path

import monedula
import pytest
from monedula.testing import Broker

GUIDE = Path(__file__).resolve().parents[2] / "docs/share-groups.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker with jobs, and a share group that reads them from the start."""
    with Broker(topics={"jobs": 2}) as broker:
        broker.append("jobs", ["good", "bad", "x" * 200])
        with monedula.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.alter_configs({("group", "resizers"): {"share.auto.offset.reset": "earliest"}})
        yield broker


pytest_plugins = ["pytester"]


@pytest.mark.parametrize("source", [each for each in EXAMPLES if "def test_" not in each])
def test_an_example_runs_as_it_stands(broker: Broker, source: str) -> None:
    exec(compile(source.replace("localhost:9092", broker.bootstrap_servers), str(GUIDE), "exec"), {})


def test_the_example_for_pytest_passes_where_nothing_is_configured(pytester: pytest.Pytester) -> None:
    (source,) = (each for each in EXAMPLES if "def test_" in each)
    pytester.makepyfile(source)
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_the_dead_letters_of_the_page_arrive(broker: Broker) -> None:
    (source,) = (each for each in EXAMPLES if "errors.deadletterqueue" in each)
    exec(compile(source.replace("localhost:9092", broker.bootstrap_servers), str(GUIDE), "exec"), {})
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    with monedula.ShareConsumer({**settings, "group.id": "resizers"}, topics=["jobs"]) as consumer:
        batch = consumer.poll(timeout=10.0)
        consumer.reject(batch)
        consumer.commit()
    letters = [record.value for each in monedula.read(settings, "dlq.jobs") for record in each.records()]
    assert letters == [record.value for record in batch.records()] != []
