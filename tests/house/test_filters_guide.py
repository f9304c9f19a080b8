"""docs/filters.md: its examples run as they stand."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import duckdb
import monedula
import polars
import pyarrow
import pyarrow.compute
import pytest
from monedula.testing import Broker

GUIDE = Path(__file__).resolve().parents[2] / "docs/filters.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Topic `orders`: two partitions with a record for each of the last five hours' quarters."""
    with Broker(topics={"orders": 2}) as broker:
        for partition in range(2):
            times = [datetime.now(UTC) - timedelta(minutes=15 * number + 5) for number in reversed(range(20))]
            records = [("key", f"value {number}") for number in range(20)]
            broker.append("orders", records, partition=partition, timestamps=times)
        yield broker


def heights(names: dict[str, object]) -> dict[str, int]:
    return {name: frame.height for name, frame in names.items() if isinstance(frame, polars.DataFrame)}


@pytest.mark.parametrize("source", EXAMPLES)
def test_an_example_runs(broker: Broker, source: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    names: dict[str, object] = {
        "datetime": datetime,
        "duckdb": duckdb,
        "monedula": monedula,
        "path": tmp_path / "orders.parquet",
        "polars": polars,
        "pyarrow": pyarrow,
        "settings": {"bootstrap.servers": broker.bootstrap_servers},
        "timedelta": timedelta,
        "timezone": timezone,
    }
    exec(compile(source, str(GUIDE), "exec"), names)
    printed = capsys.readouterr().out
    assert bool(printed) == ("print(" in source)
    if "table =" in source:
        assert heights(names) == {"table": 8}
    if "either =" in source:
        assert heights(names) == {"ours": 32, "either": 14, "same": 32, "also": 32}
    if "quick =" in source:
        assert heights(names) == {"safe": 8, "quick": 8}
    if "duckdb.sql" in source:
        assert printed.splitlines()[0] == "[(8,)]"
        assert printed.splitlines()[-1] == "20"
    if "sink_parquet" in source:
        assert polars.read_parquet(tmp_path / "orders.parquet").height == 20


def test_the_columns_of_conditions_are_those_of_the_page() -> None:
    for column in ("topic", "partition", "offset", "timestamp"):
        assert f"`{column}`" in GUIDE.read_text()
        with pytest.raises(monedula.ArgumentError, match=column):
            monedula.read({"bootstrap.servers": "127.0.0.1:1"}, "orders", where=(column, "like", "x"))
