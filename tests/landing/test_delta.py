"""A topic lands in a table of Delta: what users of the table, and of the job, see."""

import json
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import monedula
import numpy as np
import polars
import pyarrow as pa
import pytest
from monedula.errors import DecodeError, LandingError, OffsetOutOfRangeError
from monedula.landing import Delta, LandingCommit, LandingJob, check, land
from monedula.testing import Broker

from tests.groups.ground import PATIENCE_SECONDS, Ground
from tests.landing.orders import ORDER, Orders, landed, rows

deltalake = pytest.importorskip("deltalake", reason="the extra delta is not installed")


def test_each_record_is_a_row_with_its_fields_its_key_and_where_it_is_from(orders: Orders, tmp_path: Path) -> None:
    result = orders.land(tmp_path / "lake")
    assert (result.rows, result.conflicts, result.bad_records) == (300, 0, 0)
    assert result.positions == {(orders.topic, partition): end for partition, end in orders.ends().items()}
    rows = polars.read_delta(str(tmp_path / "lake")).sort("id")
    assert rows.columns == ["id", "amount", "key", "_kafka"]
    assert rows["id"].to_list() == list(range(300))
    assert rows["amount"].to_list() == [number / 2 for number in range(300)]
    assert rows["key"].to_list() == [f"key-{number}".encode() for number in range(300)]
    assert landed(tmp_path / "lake") == orders.offsets()
    assert set(rows["_kafka"].struct.field("topic")) == {orders.topic}
    assert rows["_kafka"].struct.field("timestamp").dtype == polars.Datetime("us", "UTC")


def test_duckdb_and_deltalake_read_the_same(orders: Orders, tmp_path: Path) -> None:
    orders.land(tmp_path / "lake")
    rows = deltalake.DeltaTable(tmp_path / "lake").to_pyarrow_dataset()  # noqa: F841 - DuckDB finds it by its name
    counted = duckdb.sql("select count(*), count(distinct id), sum(amount) from rows where _kafka.offset < 50")
    assert counted.fetchall() == [(150, 150, sum(range(150)) / 2)]


def test_a_second_run_goes_on_where_the_table_is(orders: Orders, tmp_path: Path) -> None:
    orders.land(tmp_path / "lake")
    assert orders.land(tmp_path / "lake").rows == 0
    orders.send(30)
    assert orders.land(tmp_path / "lake").rows == 30
    assert landed(tmp_path / "lake") == orders.offsets()


def test_the_groups_offsets_follow_for_tools_that_show_lag(orders: Orders, tmp_path: Path) -> None:
    orders.land(tmp_path / "lake")
    with monedula.Admin(orders.settings) as admin:
        committed = admin.list_group_offsets("lake")
    assert {partition: at and at.offset for (_, partition), at in committed.items()} == orders.ends()


def test_the_groups_offsets_do_not_decide_where_a_job_begins(orders: Orders, tmp_path: Path) -> None:
    orders.land(tmp_path / "lake")
    with monedula.Admin(orders.settings) as admin:
        admin.alter_group_offsets("lake", {(orders.topic, partition): 0 for partition in range(3)})
    orders.send(3)
    assert orders.land(tmp_path / "lake").rows == 3
    assert landed(tmp_path / "lake") == orders.offsets()


def test_values_without_a_decoder_are_bytes(orders: Orders, tmp_path: Path) -> None:
    orders.land(tmp_path / "lake", value=None, headers=True)
    rows = polars.read_delta(str(tmp_path / "lake"))
    assert rows.columns == ["value", "key", "_kafka"]
    assert sorted(json.loads(value)["id"] for value in rows["value"]) == list(range(300))
    assert "headers" in rows["_kafka"].struct.fields


def test_a_table_is_partitioned_by_the_day_of_the_timestamp(orders: Orders, tmp_path: Path) -> None:
    times = [datetime(2026, 11, day, 23, 59, tzinfo=UTC) for day in (1, 2, 3)]
    with monedula.Producer(orders.settings) as producer:
        for time in times:
            producer.send(orders.topic, b'{"id": 1, "amount": 1}', timestamp=time, partition=0)
    orders.land(tmp_path / "lake", partition_by="day(timestamp)")
    table = deltalake.DeltaTable(tmp_path / "lake")
    assert table.metadata().partition_columns == ["_date"]
    days = {each["partition._date"] for each in pa.table(table.get_add_actions(flatten=True)).to_pylist()}
    assert {time.date() for time in times} <= days
    rows = polars.read_delta(str(tmp_path / "lake"))
    assert (rows["_kafka"].struct.field("timestamp").dt.date() == rows["_date"]).all()


@pytest.mark.parametrize("name", ["a/b", "ä & ö", "x=y", "100%", "", None, "plain"])
def test_a_table_is_partitioned_by_a_field_whatever_its_values(
    ground: Ground, tmp_path: Path, name: str | None
) -> None:
    made = Orders(ground.bootstrap, ground.topic(1))
    made.send(5, country=name)
    made.send(5, country="other")
    made.land(tmp_path / "lake", value=monedula.Json(f"{ORDER}, country string"), partition_by="country")
    rows = polars.read_delta(str(tmp_path / "lake")).sort("id")
    # Delta has one value for null and the empty text.
    assert rows["country"].to_list() == [name or None] * 5 + ["other"] * 5


def test_more_partition_values_than_open_files(ground: Ground, tmp_path: Path) -> None:
    made = Orders(ground.bootstrap, ground.topic(1))
    made.send(250)
    result = made.land(tmp_path / "lake", partition_by="id")
    assert (result.rows, result.files) == (250, 250)
    assert landed(tmp_path / "lake") == made.offsets()


def test_new_columns_are_added_and_narrower_types_fit(orders: Orders, tmp_path: Path) -> None:
    orders.land(tmp_path / "lake")
    orders.send(3, note="new")
    result = orders.land(tmp_path / "lake", value=monedula.Json("id int, amount float, note string"))
    assert result.rows == 3
    rows = polars.read_delta(str(tmp_path / "lake")).sort("id")
    assert rows.schema["id"] == polars.Int64
    assert rows["note"].to_list() == [None] * 300 + ["new"] * 3
    # A worker with the old columns goes on beside.
    orders.send(3, note="not read")
    assert orders.land(tmp_path / "lake").rows == 3
    assert landed(tmp_path / "lake") == orders.offsets()


def test_fields_are_added_to_structs(ground: Ground, tmp_path: Path) -> None:
    made = Orders(ground.bootstrap, ground.topic(1))
    made.send(1, customer={"name": "Ada"})
    made.land(tmp_path / "lake", value=monedula.Json("id bigint, customer struct<name: string>"))
    made.send(1, customer={"name": "Bob", "age": 7})
    made.land(tmp_path / "lake", value=monedula.Json("id bigint, customer struct<name: string, age: int>"))
    made.send(1, customer={"age": 8})
    made.land(tmp_path / "lake", value=monedula.Json("id bigint, customer struct<age: int>"))
    rows = polars.read_delta(str(tmp_path / "lake")).sort("id")
    assert rows["customer"].to_list() == [
        {"name": "Ada", "age": None},
        {"name": "Bob", "age": 7},
        {"name": None, "age": 8},
    ]


def test_bad_records_end_the_job_once_what_is_before_them_is_committed(orders: Orders, tmp_path: Path) -> None:
    orders.send_bad()
    orders.send(30)
    with pytest.raises(DecodeError) as failure:
        orders.land(tmp_path / "lake")
    assert failure.value.offset == 100
    assert str(failure.value).endswith(f"; {failure.value.hint}")
    assert "Seek past" not in str(failure.value)
    assert 'mode="null"' not in str(failure.value)
    assert str(failure.value.hint).startswith('bad_records="column" keeps such records in the table')
    assert (failure.value.column, failure.value.topic) == ("value", orders.topic)
    assert landed(tmp_path / "lake")[0] == list(range(100))


def test_bad_records_are_rows_with_the_reason_and_their_bytes(orders: Orders, tmp_path: Path) -> None:
    orders.send_bad()
    orders.send(30)
    assert orders.land(tmp_path / "lake", bad_records="column").bad_records == 1
    assert landed(tmp_path / "lake") == orders.offsets()
    (bad,) = polars.read_delta(str(tmp_path / "lake")).filter(polars.col("_error").is_not_null()).to_dicts()
    assert bad["_raw"] == {"key": b"bad", "value": b"{broken"}
    assert (bad["id"], bad["key"], bad["_kafka"]["offset"]) == (None, b"bad", 100)
    assert bad["_error"].startswith("value: ")


def test_bad_records_go_to_a_dead_letter_topic(orders: Orders, ground: Ground, tmp_path: Path) -> None:
    letters = ground.topic(1)
    orders.send_bad()
    result = orders.land(tmp_path / "lake", value=monedula.Json(ORDER, dead_letter=letters))
    assert result.rows == 300
    with monedula.read(orders.settings, letters) as stream:
        assert [record.value for batch in stream for record in batch.records()] == [b"{broken"]
    table = Delta(tmp_path / "lake")
    assert check(orders.settings, orders.topic, table, job="lake").partitions[
        monedula.TopicPartition(orders.topic, 0)
    ].missing == [(100, 101)]


def test_a_job_in_a_thread_commits_by_time_until_it_is_stopped(orders: Orders, tmp_path: Path) -> None:
    commits: list[LandingCommit] = []
    seen = threading.Event()

    def note(commit: LandingCommit) -> None:
        commits.append(commit)
        if sum(each.rows for each in commits) >= 300:
            seen.set()

    job = orders.job(tmp_path / "lake", until=None, every=0.05, on_commit=note)
    job.start()
    assert seen.wait(PATIENCE_SECONDS)
    orders.send(30)
    assert job.health()["ok"]
    assert job.wait(timeout=0.0) is None
    job.stop()
    result = job.wait(PATIENCE_SECONDS)
    assert result is not None
    assert result.rows == sum(each.rows for each in commits)
    orders.land(tmp_path / "lake")
    assert landed(tmp_path / "lake") == orders.offsets()
    assert job.health()["state"] == "ended"
    assert job.metrics()["landing_rows"] == result.rows
    assert all(each.newest is not None for each in commits if each.rows)


def test_a_job_commits_by_size(orders: Orders, tmp_path: Path) -> None:
    jobs: list[LandingJob] = []
    jobs.append(orders.job(tmp_path / "lake", until=None, every=3600, max_bytes=1, on_commit=lambda _: jobs[0].stop()))
    (job,) = jobs
    assert job.run().rows > 0
    orders.land(tmp_path / "lake")
    assert landed(tmp_path / "lake") == orders.offsets()


def test_memory_is_bounded_by_row_groups(ground: Ground, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    made = Orders(ground.bootstrap, ground.topic(1))
    made.send(2000, text="x" * 100)
    made.land(tmp_path / "lake", value=monedula.Json(f"{ORDER}, text string"), max_memory_bytes=1)
    (file,) = (tmp_path / "lake").glob("*.parquet")
    footer = pq.read_metadata(file)
    assert footer.num_row_groups >= 1
    assert footer.row_group(0).column(0).compression == "ZSTD"


def test_statistics_let_readers_skip_files(orders: Orders, tmp_path: Path) -> None:
    orders.land(tmp_path / "lake")
    orders.send(30)
    orders.land(tmp_path / "lake")
    actions = pa.table(deltalake.DeltaTable(tmp_path / "lake").get_add_actions(flatten=True)).to_pylist()
    told = sorted((each["min.id"], each["max.id"], each["num_records"], each["max._kafka.offset"]) for each in actions)
    assert told == [(0, 299, 300, 99), (300, 329, 30, 109)]
    assert {each["null_count.id"] for each in actions} == {0}


def test_transactions_that_were_aborted_are_passed_over(orders: Orders, tmp_path: Path) -> None:
    with monedula.Producer({**orders.settings, "transactional.id": orders.topic}) as producer:
        producer.init_transactions()
        for number in range(4):
            producer.begin_transaction()
            producer.send(orders.topic, f'{{"id": {1000 + number}}}', partition=0)
            producer.abort_transaction() if number % 2 else producer.commit_transaction()
    result = orders.land(tmp_path / "lake")
    assert result.rows == 302
    # The position of the table is behind the markers: not the last offset and one.
    assert {partition: at for (_, partition), at in result.positions.items()} == orders.ends()
    table = Delta(tmp_path / "lake")
    assert check(orders.settings, orders.topic, table, job="lake").ok


def test_a_partition_that_a_topic_gets_later_begins_at_its_first_record(
    orders: Orders, ground: Ground, tmp_path: Path
) -> None:
    assert orders.land(tmp_path / "lake", start="latest").rows == 0
    ground.grow(orders.topic, 4)
    with monedula.Producer(orders.settings) as producer:
        for number in range(10):
            producer.send(orders.topic, f'{{"id": {number}}}', partition=3)
    assert orders.land(tmp_path / "lake", start="latest").rows == 10
    assert landed(tmp_path / "lake") == {3: list(range(10))}


def test_a_job_begins_at_given_positions(orders: Orders, tmp_path: Path) -> None:
    start: dict[tuple[str, int], Any] = {(orders.topic, 0): 90, (orders.topic, 1): "latest", (orders.topic, 2): 99}
    assert orders.land(tmp_path / "lake", start=start).rows == 11
    with monedula.Admin(orders.settings) as admin:
        admin.alter_group_offsets("lake", {(orders.topic, partition): 95 for partition in range(3)})
    assert orders.land(tmp_path / "other", start="committed").rows == 15


def test_two_topics_land_in_one_table(orders: Orders, ground: Ground, tmp_path: Path) -> None:
    more = Orders(ground.bootstrap, ground.topic(2))
    more.send(20)
    target = Delta(tmp_path / "lake")
    result = land(orders.settings, [orders.topic, more.topic], target, value=monedula.Json(ORDER), until="latest")
    assert result.rows == 320
    job = f"land-{orders.topic}-{more.topic}"
    for each in (orders, more):
        assert check(each.settings, each.topic, target, job=job).ok


def test_a_plan_changes_nothing(orders: Orders, tmp_path: Path) -> None:
    plan = orders.job(tmp_path / "lake").plan()
    assert (plan.is_new, plan.offsets) == (True, 300)
    assert plan.schema.names == ["id", "amount", "key", "_kafka"]
    assert not (tmp_path / "lake").exists()
    orders.land(tmp_path / "lake")
    orders.send(3)
    plan = orders.job(tmp_path / "lake", value=monedula.Json(f"{ORDER}, note string")).plan()
    assert (plan.is_new, plan.new_columns, plan.offsets) == (False, ("note",), 3)
    assert deltalake.DeltaTable(tmp_path / "lake").version() == 2


def test_a_check_finds_what_others_repeated_and_removed(orders: Orders, tmp_path: Path) -> None:
    orders.land(tmp_path / "lake")
    target = Delta(tmp_path / "lake")
    assert check(orders.settings, orders.topic, target, job="lake").ok
    table = deltalake.DeltaTable(tmp_path / "lake")
    again = table.to_pyarrow_table().filter((pa.compute.field("id") == 9) | (pa.compute.field("id") == 12))
    deltalake.write_deltalake(table, again, mode="append")
    table.update_incremental()
    table.delete("id = 31 or id = 34 or id = 299")
    found = check(orders.settings, orders.topic, target, job="lake")
    assert not found.ok
    assert list(found.partitions[monedula.TopicPartition(orders.topic, 0)].repeated) == [(3, 5)]
    assert list(found.partitions[monedula.TopicPartition(orders.topic, 1)].missing) == [(10, 12)]
    # The last row is missing by the job's position.
    assert list(found.partitions[monedula.TopicPartition(orders.topic, 2)].missing) == [(99, 100)]


def test_secrets_are_in_no_repr(tmp_path: Path) -> None:
    target = Delta(tmp_path, storage_options={"AWS_SECRET_ACCESS_KEY": "open sesame"})
    assert "sesame" not in repr(target)


def test_a_job_begins_once(orders: Orders, tmp_path: Path) -> None:
    job = orders.job(tmp_path / "lake")
    job.run()
    with pytest.raises(monedula.ArgumentError, match="it begins once"):
        job.run()
    with pytest.raises(monedula.ArgumentError, match="was not started"):
        orders.job(tmp_path / "lake").wait()


def test_the_package_has_the_names() -> None:
    assert (monedula.land, monedula.LandingJob, monedula.Delta) == (land, LandingJob, Delta)


def test_a_job_that_is_stopped_before_it_reads_ends(orders: Orders, tmp_path: Path) -> None:
    job = orders.job(tmp_path / "lake", until=None)
    job.stop()
    job.start()
    with pytest.raises(monedula.ArgumentError, match="it begins once"):
        job.run()
    assert job.wait(PATIENCE_SECONDS) is not None
    assert job.health()["state"] == "ended"
    assert orders.land(tmp_path / "lake").rows == 300


def test_a_partition_that_a_topic_gets_while_a_job_runs_is_landed(
    orders: Orders, ground: Ground, tmp_path: Path
) -> None:
    seen = threading.Event()

    def note(commit: LandingCommit) -> None:
        if commit.positions.get(monedula.TopicPartition(orders.topic, 3)) == 10:
            seen.set()

    settings = {"metadata.max.age.ms": 500}
    job = orders.job(tmp_path / "lake", until=None, every=0.05, on_commit=note, settings=settings)
    job.start()
    ground.grow(orders.topic, 4)
    with monedula.Producer({**orders.settings, "metadata.max.age.ms": 500}) as producer:
        for number in range(10):
            producer.send(orders.topic, f'{{"id": {number}}}', partition=3)
    assert seen.wait(PATIENCE_SECONDS)
    job.stop()
    assert job.wait(PATIENCE_SECONDS) is not None
    assert landed(tmp_path / "lake")[3] == list(range(10))


def test_a_partition_that_stopped_without_an_offset_goes_on(orders: Orders, tmp_path: Path) -> None:
    """The group has no offset of a new partition, which is told as an error before or after its assignment."""
    job = orders.job(tmp_path / "lake")
    take, told = job._consumer.take, [False, False]

    def stopped(timeout: float) -> Any:
        for number, is_assigned in enumerate((False, True)):
            if not told[number] and is_assigned == bool(job._positions):
                told[number] = True
                if is_assigned:
                    job._consumer._core.seek((orders.topic, 0), ("latest", 0))
                raise OffsetOutOfRangeError("no starting offset is known", topic=orders.topic, partition=0)
        return take(timeout)

    job._consumer.take = stopped  # type: ignore[method-assign]
    assert job.run().rows == 300
    assert told == [True, True]
    assert landed(tmp_path / "lake") == orders.offsets()


@pytest.mark.parametrize("column", ["timestamp", "timestamp_ntz", "date"])
@pytest.mark.parametrize("year", ["0001", "0999"])
def test_statistics_of_early_years_hide_no_rows(ground: Ground, tmp_path: Path, column: str, year: str) -> None:
    """`%Y` pads no years on Linux, and readers take `1-01-01` for another time, or for none."""
    made = Orders(ground.bootstrap, ground.topic(1))
    time = f"{year}-01-01" if column == "date" else f"{year}-01-01T00:00:00{'Z' if column == 'timestamp' else ''}"
    made.send(1, at=time)
    made.land(tmp_path / "lake", value=monedula.Json(f"{ORDER}, at {column}"))
    rows = deltalake.DeltaTable(tmp_path / "lake").to_pyarrow_dataset()
    (at,) = rows.to_table()["at"].combine_chunks()
    assert rows.to_table(filter=pa.compute.field("at") <= at).num_rows == 1


@pytest.mark.parametrize("partition_by", [None, "day(timestamp)"])
@pytest.mark.parametrize("value", ["good", "bad"])
@pytest.mark.parametrize("path", ["lake", "ice"])
def test_a_record_of_a_wrong_clock_stops_no_job(
    broker: Broker, tmp_path: Path, partition_by: str | None, value: str, path: str
) -> None:
    """A producer that stamps microseconds is in the year 33658, which Python's datetime does not have."""
    broker.create_topic("orders", 1, config={"message.timestamp.after.max.ms": 2**63 - 1})
    made = Orders(broker.bootstrap_servers, "orders")
    broker.append("orders", [(b"k", b'{"id": 1}' if value == "good" else b"{")], timestamps=10**15)
    made.send(5)
    assert made.land(tmp_path / path, partition_by=partition_by, bad_records="column").rows == 6


def test_a_record_without_a_timestamp_has_none_whether_it_is_good_or_bad(broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("orders", 1)
    made = Orders(broker.bootstrap_servers, "orders")
    broker.append("orders", [(b"k", b'{"id": 1}'), (b"k", b"{")], timestamps=-1)
    made.land(tmp_path / "lake", bad_records="column")
    rows = polars.read_delta(str(tmp_path / "lake"))
    assert rows["_kafka"].struct.field("timestamp").to_list() == [None, None]


@pytest.mark.parametrize("value", ["x" * 300, "\N{GRINNING FACE}" * 80])
def test_a_partition_value_that_no_folder_can_have_is_told(ground: Ground, tmp_path: Path, value: str) -> None:
    made = Orders(ground.bootstrap, ground.topic(1))
    made.send(1, country=value)
    with pytest.raises(LandingError, match="partition the table by a column of short values"):
        made.land(tmp_path / "lake", value=monedula.Json(f"{ORDER}, country string"), partition_by="country")


@pytest.mark.parametrize("column", ["a=b", "a/b", "a\nb"])
def test_a_partition_column_that_no_folder_can_be_called_like_is_refused(tmp_path: Path, column: str) -> None:
    with pytest.raises(monedula.ArgumentError, match="a name that no folder can have in it"):
        Delta(tmp_path / "lake", partition_by=column)


@pytest.mark.parametrize("column", ["a b", "a%2Fb"])
def test_the_name_of_the_partition_column_may_be_odd(ground: Ground, tmp_path: Path, column: str) -> None:
    made = Orders(ground.bootstrap, ground.topic(1))
    made.send(2, **{column: "x"})
    columns: Any = [("id", pa.int64()), (column, pa.string())]
    schema = pa.schema(columns)
    made.land(tmp_path / "lake", value=monedula.Json(schema), partition_by=column)
    assert polars.read_delta(str(tmp_path / "lake"))[column].to_list() == ["x", "x"]


@pytest.mark.parametrize("name", ["a b", "a#b", "a?b", "\N{LATIN SMALL LETTER E WITH ACUTE}"])
def test_the_path_of_a_table_may_be_odd(orders: Orders, tmp_path: Path, name: str) -> None:
    orders.land(tmp_path / name)
    orders.send(3)
    orders.land(tmp_path / name)
    assert [each.name for each in tmp_path.iterdir()] == [name], "its files are beside its log"
    # polars does not read tables under such a path, whoever wrote them.
    rows = deltalake.DeltaTable(tmp_path / name).to_pyarrow_table()
    assert sorted(rows.column("id").to_pylist()) == list(range(303))


def test_a_program_may_move_to_another_folder(orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a table of the same name: files beside it would be in no log."""
    (tmp_path / "other" / "lake").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    job = orders.job(Delta("lake"))
    monkeypatch.chdir(tmp_path / "other")
    job.run()
    assert not list((tmp_path / "other" / "lake").iterdir())
    assert landed(tmp_path / "lake") == orders.offsets()


@pytest.mark.parametrize("path", ["lake", "ice"])
def test_a_field_may_have_the_name_of_a_column_that_the_table_does_not_have(
    ground: Ground, tmp_path: Path, path: str
) -> None:
    made = Orders(ground.bootstrap, ground.topic(1))
    made.send(1, _date="x", _error="y", _raw="z")
    made.land(tmp_path / path, value=monedula.Json("_date string, _error string, _raw string"))
    (row,) = rows(tmp_path / path).to_dicts()
    assert (row["_date"], row["_error"], row["_raw"]) == ("x", "y", "z")


def test_many_columns_are_looked_at_once(ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from monedula.landing import delta_table

    looks: list[None] = []
    schema_of = delta_table._schema_of

    def looking(table: Any) -> Any:
        looks.append(None)
        return schema_of(table)

    monkeypatch.setattr(delta_table, "_schema_of", looking)
    made = Orders(ground.bootstrap, ground.topic(1))
    made.send(1)
    made.land(tmp_path / "lake", value=monedula.Json(pa.schema([(f"c{each}", pa.int64()) for each in range(200)])))
    assert len(looks) < 20, "each look takes as long as there are columns"


def test_an_integer_of_numpy_is_an_offset(orders: Orders, tmp_path: Path) -> None:
    assert orders.land(tmp_path / "lake", start=np.int64(90)).rows == 30


def test_a_start_beyond_the_log_is_not_kept(orders: Orders, tmp_path: Path) -> None:
    with pytest.raises(monedula.KafkaError):
        orders.land(tmp_path / "lake", start=1000)
    assert orders.land(tmp_path / "lake", start=90).rows == 30


def test_a_start_for_what_is_no_partition_of_the_job_is_refused(orders: Orders, tmp_path: Path) -> None:
    for start in ({("typo", 0): 5}, {0: 5}, {(orders.topic, 7): 5}):
        with pytest.raises(monedula.KafkaError):
            orders.land(tmp_path / "lake", start=start)


@pytest.mark.parametrize("gone", ["_kafka.partition = 1", "_kafka.offset < 3", "true"])
def test_a_check_finds_what_is_gone_at_the_beginning_and_as_a_whole(orders: Orders, tmp_path: Path, gone: str) -> None:
    orders.land(tmp_path / "lake")
    deltalake.DeltaTable(tmp_path / "lake").delete(gone)
    assert not check(orders.settings, orders.topic, Delta(tmp_path / "lake"), job="lake").ok


def test_a_check_looks_at_the_job_that_the_settings_name(orders: Orders, tmp_path: Path) -> None:
    settings = {**orders.settings, "group.id": "mine"}
    target = Delta(tmp_path / "lake")
    land(settings, orders.topic, target, value=monedula.Json(ORDER), until="latest")
    deltalake.DeltaTable(tmp_path / "lake").delete("id = 299")
    assert not check(settings, orders.topic, target).ok


def test_a_check_reads_the_log_once_for_many_gaps(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each marker of a transaction is a gap."""
    with monedula.Producer({**orders.settings, "transactional.id": orders.topic}) as producer:
        producer.init_transactions()
        for number in range(50):
            producer.begin_transaction()
            producer.send(orders.topic, f'{{"id": {1000 + number}}}', partition=0)
            producer.commit_transaction()
    orders.land(tmp_path / "lake")
    reads: list[None] = []
    module: Any = sys.modules["monedula.landing.check"]
    read = module.read

    def reading(*given: Any, **named: Any) -> Any:
        reads.append(None)
        return read(*given, **named)

    monkeypatch.setattr(module, "read", reading)
    assert check(orders.settings, orders.topic, Delta(tmp_path / "lake"), job="lake").ok
    assert len(reads) < 10


def test_a_commit_that_hangs_is_not_well(orders: Orders, tmp_path: Path) -> None:
    job = orders.job(tmp_path / "lake", max_commit_age=0.0)
    commit, seen, gate = job._table.commit, threading.Event(), threading.Event()

    def hang(pending: Any) -> bool:
        if pending.files:
            seen.set()
            gate.wait(PATIENCE_SECONDS)
        return commit(pending)

    job._table.commit = hang  # type: ignore[method-assign]
    job.start()
    try:
        assert seen.wait(PATIENCE_SECONDS)
        assert job.metrics()["landing_pending_rows"] == 300
        assert not job.health()["ok"]
    finally:
        gate.set()
    assert job.wait(PATIENCE_SECONDS) is not None


def test_a_job_that_commits_always_waits_between_looks(orders: Orders, tmp_path: Path) -> None:
    orders.land(tmp_path / "lake")
    job = orders.job(tmp_path / "lake", until=None, every=0.0)
    take, waits = job._consumer.take, list[float]()

    def note(timeout: float) -> Any:
        waits.append(timeout)
        if len(waits) == 50:
            job.stop()
        return take(timeout)

    job._consumer.take = note  # type: ignore[method-assign]
    job.run()
    assert min(waits) > 0, "it would spin"


def test_the_age_of_a_commit_is_that_of_the_last_one(orders: Orders, tmp_path: Path) -> None:
    """A job whose topic is silent looks every `every` seconds whether there is something to commit."""
    job = orders.job(tmp_path / "lake", until=None, every=0.01)
    ages: list[float] = []
    take = job._consumer.take

    def note(timeout: float) -> Any:
        if job.metrics()["landing_rows"] == 300:
            ages.append(job.metrics()["landing_last_commit_seconds"])
        if len(ages) == 30:
            job.stop()
        return take(timeout)

    job._consumer.take = note  # type: ignore[method-assign]
    job.run()
    assert ages == sorted(ages)


def test_a_result_has_the_positions_of_partitions_that_did_not_move(orders: Orders, tmp_path: Path) -> None:
    first = orders.land(tmp_path / "lake")
    assert orders.land(tmp_path / "lake").positions == first.positions
