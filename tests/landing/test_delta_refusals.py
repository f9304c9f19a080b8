"""What a landing job refuses, and that the way out which the error names is one."""

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import monedula
import pyarrow as pa
import pytest
from monedula.errors import DataLossError, LandingError, UnknownTopicError
from monedula.landing import Delta, check
from monedula.landing.commits import PendingCommit
from monedula.testing import Broker
from monedula.types.partitions import TopicPartition

from tests.groups.ground import PATIENCE_SECONDS
from tests.landing.orders import ORDER, Orders, landed

deltalake = pytest.importorskip("deltalake", reason="the extra delta is not installed")

from monedula.landing.delta_table import DeltaLandingTable  # noqa: E402 - needs the extra


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


def test_a_check_does_not_look_behind_the_log_of_a_topic_that_was_created_again(
    own: Orders, broker: Broker, tmp_path: Path
) -> None:
    own.land(tmp_path / "lake")
    deltalake.DeltaTable(tmp_path / "lake").delete("_kafka.partition = 0 and _kafka.offset in (1, 7)")
    broker.delete_topic("orders")
    broker.create_topic("orders", 2)
    own.send(6)
    found = check(own.settings, "orders", monedula.Delta(tmp_path / "lake"), job="lake").partitions[
        TopicPartition("orders", 0)
    ]
    assert (found.missing, found.unknown) == ([(1, 2)], [(7, 8)])


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


def _before(job: Any, method: str, call: Callable[[], object]) -> None:
    """Have `call` run once before a method of a job."""
    original = getattr(job, method)

    def once(*arguments: Any) -> None:
        setattr(job, method, original)
        call()
        original(*arguments)

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


@pytest.mark.parametrize("value", ["true", "TRUE", "1", "yes", "on", "y"])
@pytest.mark.parametrize("place", ["option", "environment"])
def test_a_store_that_overwrites_commits_is_refused(monkeypatch: pytest.MonkeyPatch, place: str, value: str) -> None:
    """All that deltalake takes for true, from both places where it looks."""
    told = {"AWS_S3_ALLOW_UNSAFE_RENAME": value}
    if place == "environment":
        monkeypatch.setenv("AWS_S3_ALLOW_UNSAFE_RENAME", value)
    with pytest.raises(monedula.ArgumentError, match="two workers may both write one version"):
        Delta("s3://bucket/lake", storage_options=told if place == "option" else None)


def test_a_target_is_a_table(own: Orders) -> None:
    with pytest.raises(monedula.ArgumentError, match=r"expected a table, such as monedula\.Delta"):
        monedula.land(own.settings, "orders", "./lake")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            lambda path: deltalake.write_deltalake(
                path, pa.table({"id": ["a"]}), mode="overwrite", schema_mode="overwrite"
            ),
            id="columns",
        ),
        pytest.param(
            lambda path: deltalake.write_deltalake(
                path,
                deltalake.DeltaTable(path).to_pyarrow_table(),
                mode="overwrite",
                schema_mode="overwrite",
                partition_by=["id"],
            ),
            id="partitions",
        ),
        pytest.param(
            lambda path: deltalake.DeltaTable(path).alter.set_table_properties(
                {"delta.setTransactionRetentionDuration": "interval 1 days"}
            ),
            id="retention",
        ),
    ],
)
@pytest.mark.parametrize("moment", ["_land", "_assigned"])
def test_a_table_that_others_change_meanwhile_is_refused_whenever_the_job_learns_of_it(
    own: Orders, tmp_path: Path, change: Callable[[Path], object], moment: str
) -> None:
    """Also if the newest version is read for another reason than a commit that failed, as at each assignment."""
    own.land(tmp_path / "lake")
    own.send(2)
    job = own.job(tmp_path / "lake")
    _before(job, moment, lambda: change(tmp_path / "lake"))
    with pytest.raises(LandingError):
        job.run()
    added = [
        version
        for version in deltalake.DeltaTable(tmp_path / "lake").history()
        if version.get("monedula.job") == "lake" and version["version"] > 3
    ]
    assert not added


def test_a_table_that_others_change_right_after_a_commit_is_refused(
    own: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look after a commit learns of it: the next one must not go on with the old columns."""
    write, commits = DeltaLandingTable._write, list[int]()

    def change(table: DeltaLandingTable, pending: PendingCommit) -> None:
        write(table, pending)
        if pending.files and not commits:
            deltalake.write_deltalake(table._table, pa.table({"id": ["a"]}), mode="overwrite", schema_mode="overwrite")

    def go_on(commit: Any) -> None:
        commits.append(commit.rows)
        own.send(2)
        if sum(commits) > 20:
            job.stop()

    monkeypatch.setattr(DeltaLandingTable, "_write", change)
    job = own.job(tmp_path / "lake", until=None, every=0.05, on_commit=go_on)
    with pytest.raises(LandingError):
        job.run()


def test_a_table_that_was_replaced_has_no_positions_any_more(own: Orders, tmp_path: Path) -> None:
    """Delta keeps the transactions of the table before, whose rows are gone."""
    own.land(tmp_path / "lake")
    schema = pa.schema(deltalake.DeltaTable(tmp_path / "lake").schema().to_arrow())
    deltalake.DeltaTable.create(tmp_path / "lake", schema=schema, mode="overwrite")
    own.send(2)
    with pytest.raises(LandingError):
        own.land(tmp_path / "lake")


@pytest.mark.parametrize("field", ["id bigint", "nested struct<a: bigint>"])
def test_a_table_of_others_with_columns_that_must_not_be_null_is_refused(
    own: Orders, tmp_path: Path, field: str
) -> None:
    nested = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    column = pa.field("id", pa.int64(), nullable=False) if field[0] == "i" else pa.field("nested", nested)
    deltalake.DeltaTable.create(tmp_path / "lake", schema=pa.schema([column]))
    with monedula.Producer(own.settings) as producer:
        producer.send("orders", None)
    with pytest.raises(LandingError, match="must not be null"):
        own.land(tmp_path / "lake", value=monedula.Json(field))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("value", None),
        ("id", "decoded"),
        *((name, value) for name in ("_kafka", "_error", "_date") for value in (None, "decoded")),
    ],
)
def test_the_column_of_keys_has_a_name_of_its_own(own: Orders, tmp_path: Path, name: str, value: str | None) -> None:
    options: dict[str, Any] = {} if value else {"value": None}
    if name == "_error":
        options["bad_records"] = "column"
    if name == "_date":
        options["partition_by"] = "day(timestamp)"
    with pytest.raises(monedula.ArgumentError, match=name):
        own.land(tmp_path / "lake", key_column=name, **options)
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("arguments", [{"job": 5}, {"key_column": 5}, {"key_column": ""}, {"topics": []}])
def test_arguments_of_other_types(own: Orders, tmp_path: Path, arguments: dict[str, Any]) -> None:
    topics = arguments.pop("topics", "orders")
    with pytest.raises(monedula.ArgumentError):
        monedula.land(own.settings, topics, Delta(tmp_path / "lake"), until="latest", **arguments)
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("path", ["lake", "ice"])
def test_fields_of_structs_that_differ_in_their_case_alone_are_refused(own: Orders, tmp_path: Path, path: str) -> None:
    with pytest.raises(monedula.ArgumentError, match="case"):
        own.land(tmp_path / path, value=monedula.Json("nested struct<ID: int, id: int>"))


@pytest.mark.parametrize("place", ["a file", "below a file", "a broken log"])
def test_what_is_no_table_is_an_error_of_the_job(own: Orders, tmp_path: Path, place: str) -> None:
    path = tmp_path / "lake"
    if place == "a broken log":
        own.land(path)
        (path / "_delta_log" / "00000000000000000001.json").write_text("{broken")
    else:
        path.write_text("no folder")
    with pytest.raises(LandingError) as failure:
        own.land(path / "below" if place == "below a file" else path)
    assert str(failure.value).count("\n") == 0


def test_a_feature_that_admits_rows_admits_checks(own: Orders, tmp_path: Path) -> None:
    own.land(tmp_path / "lake")
    feature = deltalake.TableFeatures.V2Checkpoint
    deltalake.DeltaTable(tmp_path / "lake").alter.add_feature(feature, allow_protocol_versions_increase=True)
    assert check(own.settings, "orders", Delta(tmp_path / "lake"), job="lake").ok
    with pytest.raises(LandingError, match="the table has rows of orders-0, but no position"):
        own.land(tmp_path / "lake", job="other")


class _Clock:
    """The time so many seconds ago."""

    sleep = staticmethod(time.sleep)
    monotonic = staticmethod(time.monotonic)

    def __init__(self, ago: float) -> None:
        self._ago = ago

    def time(self) -> float:
        return time.time() - self._ago


RETENTION = {"delta.setTransactionRetentionDuration": "interval 30 days"}
DAY_SECONDS = 86400.0


def test_a_job_that_runs_daily_keeps_its_positions_under_a_retention(
    own: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first run wrote expires; the runs after it write it anew, also for the topic and for idle partitions."""
    target = Delta(tmp_path / "lake", configuration=RETENTION)
    order = monedula.Json(ORDER)
    for days in (29, 20, 10):
        monkeypatch.setattr("monedula.landing.delta_table.time", _Clock(days * DAY_SECONDS))
        monedula.land(own.settings, "orders", target, value=order, job="lake", until="latest")
        with monedula.Producer(own.settings) as producer:
            producer.send("orders", b'{"id": 1}', partition=0)
    monkeypatch.undo()
    log = sorted((tmp_path / "lake" / "_delta_log").glob("*.json"))
    written = [json.loads(line)["txn"] for file in log for line in file.read_text().splitlines() if '"txn"' in line]
    newest = {each["appId"]: each["lastUpdated"] for each in written}
    oldest = min(newest.values()) / 1000
    assert time.time() - oldest < 21 * DAY_SECONDS, newest


def test_a_clock_behind_the_retention_repeats_nothing(
    own: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the library each position has expired as soon as it is written; to the job the log has it."""
    monkeypatch.setattr("monedula.landing.delta_table.time", _Clock(31 * DAY_SECONDS))
    target = Delta(tmp_path / "lake", configuration=RETENTION)
    for _ in range(2):
        monedula.land(own.settings, "orders", target, value=monedula.Json(ORDER), job="lake", until="latest")
    assert landed(tmp_path / "lake") == own.offsets()


def test_records_that_are_deleted_while_a_job_reads_are_skipped_if_that_is_wanted(
    own: Orders, broker: Broker, tmp_path: Path
) -> None:
    def delete(commit: Any) -> None:
        position = commit.positions.get(("orders", 0))
        if position == 10:
            own.send(20)
            broker.delete_records("orders", 0, 15)
            job._consumer.seek(("orders", 0), 2)  # as if it had not come further
        if position == 20:
            job.stop()

    job = own.job(tmp_path / "lake", until=None, every=0.05, on_commit=delete, fail_on_data_loss=False)
    job.start()
    assert job.wait(PATIENCE_SECONDS) is not None
    own.land(tmp_path / "lake", fail_on_data_loss=False)
    assert landed(tmp_path / "lake") == {0: [*range(10), *range(15, 20)], 1: list(range(20))}


def test_a_topic_that_is_deleted_while_a_job_runs_is_told(own: Orders, broker: Broker, tmp_path: Path) -> None:
    seen = threading.Event()
    settings = {"metadata.max.age.ms": 500, "topic.metadata.propagation.max.ms": 1000}
    job = own.job(tmp_path / "lake", until=None, every=0.05, on_commit=lambda _: seen.set(), settings=settings)
    job.start()
    assert seen.wait(PATIENCE_SECONDS)
    broker.delete_topic("orders")
    group: Any = {}
    try:
        while not group.get("unknown_topics") and job.health()["ok"]:
            group = job.health()["consumer"]["group"] or {}
        assert not job.health()["ok"]
    finally:
        job.stop()
        with suppress(monedula.KafkaError):
            job.wait(PATIENCE_SECONDS)
