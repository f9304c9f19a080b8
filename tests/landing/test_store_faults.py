"""Stores that are slow, fail, answer too late or refuse: each offset once, none missing, and errors that say why."""

import traceback
from typing import Any

import pytest
from monedula.errors import LandingError
from monedula.landing import Delta, Iceberg, LandingJob
from pyarrow.fs import FileSelector, PyFileSystem

from tests.groups.ground import PATIENCE_SECONDS
from tests.landing.http_relay import Fault, HttpRelay
from tests.landing.orders import Orders, Target, landed
from tests.landing.servers import Server
from tests.landing.stores import BUCKET, SECRET, S3Store

pytest.importorskip("deltalake", reason="the extra delta is not installed")
pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")

LOG = r"PUT .*/_delta_log/0.*\.json"
GLUE = "POST /"
FILES = r"(PUT|POST) .*part-.*"
SLOW_DOWN = "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
DENIED = "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


@pytest.fixture(params=["delta", "glue"])
def table(request: pytest.FixtureRequest, relayed: S3Store) -> Target:
    """A new table behind the relay."""
    return relayed.delta() if request.param == "delta" else relayed.glue()


def commits_of(table: Target) -> str:
    """The requests by which it is committed."""
    return LOG if isinstance(table, Delta) else GLUE


ANSWERS: dict[str, dict[str, Any]] = {
    "reset before": {},
    "reset after": {"carries_out": True},
    "503": {"status": 503, "body": SLOW_DOWN},
    "500 after": {"status": 500, "carries_out": True},
    "late": {"delay_seconds": 1.0, "carries_out": True},
}


OFTEN = [("commits", "reset after"), ("commits", "500 after"), ("files", "503")]
CASES = [
    pytest.param(what, answer, marks=() if (what, answer) in OFTEN else pytest.mark.thorough)
    for what in ("commits", "files")
    for answer in ANSWERS
]


@pytest.mark.parametrize(("what", "answer"), CASES)
def test_requests_that_fail_neither_lose_nor_repeat(
    orders: Orders, table: Target, relay: HttpRelay, what: str, answer: str
) -> None:
    orders.job(table, until="2020-01-01T00:00:00Z").run()
    pattern = commits_of(table) if what == "commits" else FILES
    relay.set(Fault(pattern, times=2, **ANSWERS[answer]))
    result = orders.land(table)
    assert relay.counts()[pattern] > 0
    assert (result.rows, result.conflicts) == (300, 0)
    assert landed(table) == orders.offsets()


def test_a_store_that_fails_for_good_ends_the_job_and_the_next_one_goes_on(
    orders: Orders, table: Target, relay: HttpRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    for form in ("delta", "iceberg"):
        monkeypatch.setattr(f"monedula.landing.{form}_table.ATTEMPT_PAUSES_S", (0.0, 0.1))
    orders.job(table, until="2020-01-01T00:00:00Z").run()
    if isinstance(table, Delta):
        table.storage_options["max_retries"] = "2"
    relay.set(Fault(commits_of(table), status=503, body=SLOW_DOWN))
    with pytest.raises(LandingError) as failure:
        orders.land(table)
    assert "SlowDown" in str(failure.value) or "503" in str(failure.value)
    relay.set()
    assert orders.land(table).rows == 300
    assert landed(table) == orders.offsets()


def test_a_file_that_is_not_taken_ends_the_job_and_the_next_one_goes_on(
    orders: Orders, table: Target, relay: HttpRelay
) -> None:
    """The permission for the prefix of the data files alone is missing."""
    orders.job(table, until="2020-01-01T00:00:00Z").run()
    relay.set(Fault(FILES, status=403, body=DENIED))
    with pytest.raises(LandingError, match=r"a data file cannot be written: .*(AccessDenied|ACCESS_DENIED)"):
        orders.land(table)
    relay.set()
    assert orders.land(table).rows == 300
    assert landed(table) == orders.offsets()


def test_a_table_that_is_deleted_while_a_job_runs_ends_it(
    orders: Orders, s3: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store has no folders: a version could be written where the log was, and would be the only one."""
    table = s3.delta()
    orders.land(table)
    orders.send(3)
    job = orders.job(table)
    commit = job._commit

    def commit_to_nothing() -> None:
        files_of(table).delete_dir("_delta_log")
        monkeypatch.setattr(job, "_commit", commit)
        commit()

    monkeypatch.setattr(job, "_commit", commit_to_nothing)
    with pytest.raises(LandingError, match="the log has lost its version"):
        job.run()
    assert orders.land(table).rows == 303
    assert landed(table) == orders.offsets()


def test_health_is_bad_while_a_commit_takes_too_long(orders: Orders, relayed: S3Store, relay: HttpRelay) -> None:
    table = relayed.delta()
    orders.job(table, until="2020-01-01T00:00:00Z").run()
    relay.set(Fault(LOG, delay_seconds=2.5, carries_out=True, times=1))
    job = orders.job(table, max_commit_age=1.0)
    job.start()
    seen: set[bool] = set()
    while job.wait(0.05) is None:
        seen.add(job.health()["ok"])
    assert seen == {True, False}
    assert job.health()["ok"]
    assert landed(table) == orders.offsets()


def test_a_store_that_lets_two_commits_of_one_version_in_is_refused(
    orders: Orders, relayed: S3Store, relay: HttpRelay
) -> None:
    table = relayed.delta()
    relay.set(Fault(LOG, carries_out=True, without="If-None-Match"))
    with pytest.raises(LandingError, match="lets two writers make one version") as failure:
        orders.land(table)
    assert "conditional writes" in str(failure.value.hint)
    relay.set()
    assert orders.land(table).rows == 300
    assert not left_of_probes(table)


def files_of(table: Delta) -> PyFileSystem:
    from deltalake.fs import DeltaStorageHandler

    return PyFileSystem(DeltaStorageHandler(table.path, table.storage_options))


def left_of_probes(table: Delta) -> list[str]:
    found = files_of(table).get_file_info(FileSelector("", recursive=True))
    return [each.path for each in found if "probe" in each.path]


def test_a_store_without_conditional_writes_is_refused(orders: Orders, s3: S3Store) -> None:
    with pytest.raises(LandingError, match="when conditional put is disabled"):
        orders.land(s3.delta(AWS_CONDITIONAL_PUT="disabled"))


def told(job: LandingJob) -> LandingError:
    """What a job fails with; without secrets, in one line, and soon."""
    job.start()
    with pytest.raises(LandingError) as failure:
        assert job.wait(PATIENCE_SECONDS) is not None, "the error did not come"
    whole = "".join(traceback.format_exception(failure.value))
    assert SECRET not in whole
    assert not any(each in str(failure.value) for each in ("\x1b", "\n", "?"))
    return failure.value


REFUSALS: dict[str, tuple[Fault, str]] = {
    "credentials": (
        Fault(
            ".*",
            status=403,
            body="<Error><Code>InvalidAccessKeyId</Code><Message>The AWS Access Key Id you provided does not exist in "
            f"our records.</Message><StringToSign>{SECRET}</StringToSign></Error>",
        ),
        "InvalidAccessKeyId: The AWS Access Key Id you provided does not exist|INVALID_ACCESS_KEY|403|ACCESS_DENIED",
    ),
    "region": (Fault(".*", status=301), "the bucket is in another region|301"),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_a_store_that_refuses_says_why(orders: Orders, relayed: S3Store, relay: HttpRelay, what: str) -> None:
    fault, message = REFUSALS[what]
    relay.set(fault)
    failure = told(orders.job(relayed.delta()))
    assert any(each in str(failure) for each in message.split("|"))


def test_a_bucket_that_is_not_there_is_told(orders: Orders, s3: S3Store) -> None:
    table = s3.delta()
    table.path = table.path.replace(BUCKET, "absent")
    assert "NoSuchBucket: The specified bucket does not exist" in str(told(orders.job(table)))


def test_an_address_that_leads_nowhere_is_told(orders: Orders, s3: S3Store) -> None:
    failure = told(orders.job(s3.delta(AWS_ENDPOINT_URL="http://127.0.0.1:9")))
    assert "Connection refused" in str(failure)


def test_missing_options_are_told(orders: Orders, s3: S3Store) -> None:
    table = s3.delta()
    del table.storage_options["AWS_ALLOW_HTTP"]
    assert "AWS_ALLOW_HTTP" in str(told(orders.job(table)).hint)


def test_a_catalog_of_iceberg_that_does_not_answer_is_told(orders: Orders, moto_server: Server) -> None:
    files = S3Store(moto_server).files()
    catalog = {"type": "rest", "uri": f"http://me:{SECRET}@127.0.0.1:9", **files}
    failure = told(orders.job(Iceberg("lake.orders", catalog=catalog)))
    assert "the catalog cannot be opened" in str(failure)


def test_a_bucket_of_iceberg_that_is_not_there_is_told(orders: Orders, s3: S3Store) -> None:
    table = s3.glue()
    catalog: Any = table.catalog
    catalog["warehouse"] = "s3://absent/tables"
    assert "NO_SUCH_BUCKET" in str(told(orders.job(table)))
