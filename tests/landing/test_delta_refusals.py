"""What a landing job refuses, and that the way out which the error names is one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import monedula
import pyarrow as pa
import pytest
from monedula.errors import DataLossError, LandingError, UnknownTopicError
from monedula.landing import Delta
from monedula.testing import Broker

from tests.landing.orders import ORDER, Orders, landed

deltalake = pytest.importorskip("deltalake", reason="the extra delta is not installed")


@pytest.fixture
def own(broker: Broker) -> Orders:
    """Orders on a broker of the test's own."""
    broker.create_topic("orders", 2)
    made = Orders(broker.bootstrap_servers, "orders")
    made.send(20)
    return made


def test_a_topic_that_was_created_again_needs_another_job(own: Orders, broker: Broker, tmp_path: Path) -> None:
    own.land(tmp_path / "lake")
    broker.delete_topic("orders")
    broker.create_topic("orders", 2)
    own.send(30)
    with pytest.raises(LandingError, match="was deleted and created again"):
        own.land(tmp_path / "lake")
    with pytest.raises(LandingError, match="the table has rows of orders-0, but no position"):
        own.land(tmp_path / "lake", job="again")
    start = {("orders", 0): 0, ("orders", 1): 0}
    assert own.land(tmp_path / "lake", job="again", start=start).rows == 30


def test_a_topic_that_is_created_again_meanwhile_ends_the_job(own: Orders, broker: Broker, tmp_path: Path) -> None:
    job = own.job(tmp_path / "lake", until=None, every=0.05, on_commit=lambda _: _again(broker))
    with pytest.raises(monedula.KafkaError):
        job.run()
    assert landed(tmp_path / "lake") == {0: list(range(10)), 1: list(range(10))}


def _again(broker: Broker) -> None:
    broker.delete_topic("orders")
    broker.create_topic("orders", 2)


def test_records_that_the_log_deleted_are_not_skipped_in_silence(own: Orders, broker: Broker, tmp_path: Path) -> None:
    own.land(tmp_path / "lake")
    own.send(20)
    broker.delete_records("orders", 0, 15)
    with pytest.raises(DataLossError, match="the table is at offset 10, and the log begins at 15") as failure:
        own.land(tmp_path / "lake")
    assert failure.value.log_start_offset == 15
    assert own.land(tmp_path / "lake", fail_on_data_loss=False).rows == 15
    assert landed(tmp_path / "lake") == {0: [*range(10), *range(15, 20)], 1: list(range(20))}


def test_records_that_are_deleted_while_a_job_reads_end_it(own: Orders, broker: Broker, tmp_path: Path) -> None:
    def delete(_: object) -> None:
        broker.delete_records("orders", 0, 5)
        job._consumer.seek(("orders", 0), 2)  # as if it had not come further

    job = own.job(tmp_path / "lake", until=None, every=0.05, on_commit=delete)
    with pytest.raises(DataLossError) as failure:
        job.run()
    assert (failure.value.offset, failure.value.log_start_offset) == (2, 5)


def test_a_log_that_ends_before_the_table_is_another_one(own: Orders, broker: Broker, tmp_path: Path) -> None:
    own.land(tmp_path / "lake")
    broker.truncate("orders", 0, 5)
    with pytest.raises(LandingError, match="the table is at offset 10 of orders-0, and the log ends at 5"):
        own.land(tmp_path / "lake")


def test_a_table_that_was_restored_is_refused_until_it_is_restored_again(own: Orders, tmp_path: Path) -> None:
    own.land(tmp_path / "lake")
    table = deltalake.DeltaTable(tmp_path / "lake")
    whole = table.version()
    table.restore(1)
    own.send(20)
    with pytest.raises(LandingError, match="was restored to an earlier version"):
        own.land(tmp_path / "lake")
    table = deltalake.DeltaTable(tmp_path / "lake")
    table.restore(whole)
    assert own.land(tmp_path / "lake").rows == 20
    assert landed(tmp_path / "lake") == own.offsets()


def test_a_table_that_is_restored_while_a_job_runs_is_refused(own: Orders, tmp_path: Path) -> None:
    own.land(tmp_path / "lake")
    own.send(2)
    table = deltalake.DeltaTable(tmp_path / "lake")

    def restore() -> None:
        table.update_incremental()
        table.restore(1)

    job = own.job(tmp_path / "lake")
    _before(job, "_commit", restore)
    with pytest.raises(LandingError, match="was restored"):
        job.run()
    # Its last commit came after the restoration: that is not forgotten.
    with pytest.raises(LandingError, match="was restored"):
        own.land(tmp_path / "lake")


def _before(job: Any, method: str, call: Callable[[], None]) -> None:
    """Have `call` run once before a method of a job."""
    original = getattr(job, method)

    def once() -> None:
        setattr(job, method, original)
        call()
        original()

    setattr(job, method, once)


@pytest.mark.parametrize("retention", ["interval 1 days", "interval 20 days", "some time"])
def test_a_table_that_forgets_positions_is_refused(own: Orders, tmp_path: Path, retention: str) -> None:
    name = "delta.setTransactionRetentionDuration"
    own.land(tmp_path / "lake")
    table = deltalake.DeltaTable(tmp_path / "lake")
    table.alter.set_table_properties({name: retention if retention[0] == "i" else "interval 2 hours"})
    with pytest.raises(LandingError, match="the table would forget positions") as failure:
        own.land(tmp_path / "lake")
    assert "30 days" in str(failure.value.hint)
    table.alter.set_table_properties({name: "interval 60 days"})
    assert own.land(tmp_path / "lake").rows == 0


def test_a_table_with_other_columns_is_refused(own: Orders, tmp_path: Path) -> None:
    own.land(tmp_path / "lake")
    own.send(2)
    with pytest.raises(
        LandingError, match="the column amount of the table is of the type double, and records have str"
    ):
        own.land(tmp_path / "lake", value=monedula.Json("id bigint, amount string"))
    with pytest.raises(LandingError, match="differs from 'ID' in its case alone"):
        own.land(tmp_path / "lake", value=monedula.Json("ID bigint"))
    with pytest.raises(LandingError, match="is not partitioned"):
        own.land(tmp_path / "lake", partition_by="day(timestamp)")
    assert own.land(tmp_path / "lake").rows == 2


def test_a_table_of_others_with_a_column_that_must_not_be_null_is_refused(own: Orders, tmp_path: Path) -> None:
    fields: list[Any] = [pa.field("id", pa.int64()), pa.field("tenant", pa.string(), nullable=False)]
    schema = pa.schema(fields)
    deltalake.DeltaTable.create(tmp_path / "lake", schema=schema)
    with pytest.raises(LandingError, match="tenant of the table must not be null"):
        own.land(tmp_path / "lake")


def test_a_table_with_a_rule_is_refused(own: Orders, tmp_path: Path) -> None:
    own.land(tmp_path / "lake")
    deltalake.DeltaTable(tmp_path / "lake").alter.add_constraint({"positive": "amount >= 0"})
    with pytest.raises(LandingError, match=r"rules that a landing job does not apply: delta\.constraints\.positive"):
        own.land(tmp_path / "lake")


def test_rows_of_others_without_a_position_are_not_repeated(own: Orders, tmp_path: Path) -> None:
    own.land(tmp_path / "lake")
    with pytest.raises(LandingError, match="the table has rows of orders-0, but no position"):
        own.land(tmp_path / "lake", job="other")


def test_another_table_in_the_place_of_the_first_is_refused(own: Orders, tmp_path: Path) -> None:
    own.land(tmp_path / "lake")
    own.send(2)
    job = own.job(tmp_path / "lake")
    schema = pa.schema(deltalake.DeltaTable(tmp_path / "lake").schema().to_arrow())

    def replace() -> None:
        deltalake.DeltaTable.create(tmp_path / "lake", schema=schema, mode="overwrite")

    _before(job, "_commit", replace)
    with pytest.raises(LandingError):
        job.run()


def test_a_topic_that_does_not_exist_is_an_error(own: Orders, tmp_path: Path) -> None:
    settings = {**own.settings, "topic.metadata.propagation.max.ms": 1000, "default.api.timeout.ms": 5000}
    with pytest.raises(UnknownTopicError):
        monedula.land(settings, "missing", Delta(tmp_path / "lake"), until="latest")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"value": monedula.Json("key string")}, "give key_column='_key'"),
        ({"value": monedula.Json("id int, ID int")}, "differ in their case"),
        ({"value": monedula.Json("_kafka string")}, "a field '_kafka'"),
        ({"bad_records": "ignore"}, "expected 'fail' or 'column'"),
        ({"bad_records": "column", "value": monedula.Json(ORDER, mode="drop")}, "another thing about bad records"),
        ({"partition_by": "country"}, "the columns are id, amount"),
        ({"partition_by": "amount"}, "the column is of the type double"),
        ({"start": "tomorrow or so"}, "tomorrow"),
        ({"max_bytes": 0}, "expected a number of bytes"),
        ({"every": -1}, "every"),
    ],
)
def test_arguments_that_make_no_sense(own: Orders, tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(monedula.ArgumentError, match=message):
        own.land(tmp_path / "lake", **arguments)
    assert not (tmp_path / "lake").exists()


def test_a_store_that_overwrites_commits_is_refused() -> None:
    with pytest.raises(monedula.ArgumentError, match="two workers may both write one version"):
        Delta("s3://bucket/lake", storage_options={"AWS_S3_ALLOW_UNSAFE_RENAME": "true"})


def test_a_target_is_a_table(own: Orders) -> None:
    with pytest.raises(monedula.ArgumentError, match=r"expected a table, such as monedula\.Delta"):
        monedula.land(own.settings, "orders", "./lake")  # type: ignore[arg-type]
