"""Deadlines, retries, versions; the event loop, threads, signals and forks around an administrator."""

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Iterator

import monedula
import pytest
from monedula import Admin, AsyncAdmin, NewTopic
from monedula.testing import Broker

from tests.runtime.script import run

SLACK_SECONDS = 0.9
"""Allows for a busy machine."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(3, topics={"orders": 2}) as broker:
        yield broker


def open_admin(broker: Broker, **settings: object) -> Admin:
    return Admin(bootstrap_servers=broker.bootstrap_servers, retry_backoff_ms=1, **settings)


def test_errors_that_pass_are_tried_again(broker: Broker) -> None:
    broker.fault(api="CreateTopics", error="NOT_CONTROLLER", count=2)
    broker.fault(api="ListOffsets", error="NOT_LEADER_OR_FOLLOWER", count=2)
    broker.fault(api="FindCoordinator", error="COORDINATOR_NOT_AVAILABLE", count=2)
    broker.fault(api="ListGroups", error="COORDINATOR_LOAD_IN_PROGRESS", count=2)
    with open_admin(broker) as admin:
        assert "new" in admin.create_topics("new")
        assert len(admin.list_offsets("orders")) == 2
        admin.alter_group_offsets("etl", {("orders", 0): 0})
        assert set(admin.list_groups()) == {"etl"}


def test_a_lost_answer_is_asked_for_again(broker: Broker) -> None:
    with open_admin(broker) as admin:
        broker.fault(api="DeleteTopics", reset=True, on="answer", count=1)
        assert admin.delete_topics("orders") == {"orders": None}, "gone by the first attempt"
        broker.fault(api="CreateTopics", reset=True, on="answer", count=1)
        with pytest.raises(monedula.errors.TopicExistsError, match="an earlier attempt of this call"):
            admin.create_topics("new")


ANYWHERE: dict[str, Callable[[Admin], object]] = {
    "Metadata": lambda admin: (admin.describe_topics("orders", timeout=20), admin.list_topics(timeout=20)),
    "DescribeConfigs": lambda admin: admin.describe_configs("orders", timeout=20),
    "DescribeClientQuotas": lambda admin: admin.describe_client_quotas(timeout=20),
    "DescribeQuorum": lambda admin: admin.describe_metadata_quorum(timeout=20),
    "DescribeUserScramCredentials": lambda admin: admin.describe_user_scram_credentials(timeout=20),
}


@pytest.mark.parametrize("api", ANYWHERE)
@pytest.mark.parametrize("silent", [1, 2, 3])
def test_a_silent_broker_delays_nothing_that_others_know(broker: Broker, api: str, silent: int) -> None:
    """They waited for it as long as they had: every third call by default."""
    broker.fault(api=api, node=silent, hold=True)
    with open_admin(broker, request_timeout_ms=20_000) as admin:
        for _ in range(3):
            ANYWHERE[api](admin)


def test_each_item_ends_with_an_error_when_its_time_is_over(broker: Broker) -> None:
    broker.fault(api="ListOffsets", error="NOT_LEADER_OR_FOLLOWER", topic="orders", partition=1)
    with open_admin(broker) as admin:
        found = admin.list_offsets("orders", timeout=3.0, errors="return")
        assert [at.partition for at in found] == [0]
        (error,) = found.errors.values()
        assert isinstance(error, monedula.KafkaTimeoutError)
        assert "NOT_LEADER_OR_FOLLOWER" in str(error)


def test_a_partition_without_a_leader_holds_up_itself_alone(broker: Broker) -> None:
    with open_admin(broker) as admin:
        leads = admin.describe_topics("orders")["orders"].partitions[0].leader
        assert leads is not None
        broker.stop_node(leads)
        # The number of partitions is known although the first has no leader.
        found = admin.list_offsets("orders", timeout=3.0, errors="return")
        assert [at.partition for at in found] == [1]
        (error,) = found.errors.values()
        assert isinstance(error, monedula.KafkaTimeoutError)
        assert "LEADER_NOT_AVAILABLE" in str(error)


def test_nobody_there() -> None:
    with Broker() as broker:
        address = broker.bootstrap_servers
    with (
        Admin(bootstrap_servers=address, bootstrap_timeout_ms=200) as admin,
        pytest.raises(monedula.errors.BrokerConnectionError, match=re.escape(address)),
    ):
        admin.list_topics()


@pytest.mark.req("S168")
def test_only_what_the_broker_offers_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "monedula.broker")
    offered = {
        "Metadata": 8,
        "CreateTopics": 4,
        "DeleteTopics": 3,
        "DescribeConfigs": 1,
        "ListGroups": 2,
        "DescribeGroups": 3,
        "FindCoordinator": 3,
        "OffsetFetch": 6,
        "OffsetCommit": 5,
        "ListOffsets": 4,
        "ElectLeaders": 0,
        "ConsumerGroupDescribe": -1,
        "IncrementalAlterConfigs": -1,
    }
    with Broker(2, topics={"orders": 2}, max_versions=offered) as broker, open_admin(broker) as admin:
        assert "new" in admin.create_topics("new", partitions=1, replication_factor=1)
        admin.delete_topics("new")
        assert admin.list_topics()["orders"].topic_id is None
        admin.alter_group_offsets("etl", {("orders", 0): 0})
        assert admin.list_groups()["etl"].state == "", "this version does not tell"
        assert admin.describe_groups("etl")["etl"].type == "classic"
        assert admin.group_lag("etl").total == 0
        assert admin.describe_configs("orders")
        assert list(admin.elect_leaders([("orders", 0)]).values()) == [False]
        sent = re.findall(r"node \d+: (\w+) v(\d+)", "\n".join(line.message for line in broker.log()))
        assert {api for api, _ in sent} >= set(offered) - {"ConsumerGroupDescribe", "IncrementalAlterConfigs"}
        assert [(api, version) for api, version in sent if int(version) > offered.get(api, 99)] == []
        for call in (
            lambda: admin.alter_configs({"orders": {"retention.ms": 1}}),
            lambda: admin.list_groups(states=["Empty"]),
            lambda: admin.elect_leaders([("orders", 0)], unclean=True),
            lambda: admin.list_offsets("orders", "max_timestamp"),
        ):
            with pytest.raises(monedula.errors.UnsupportedVersionError, match="no common version of"):
                call()


async def test_the_same_verbs_in_a_loop(broker: Broker) -> None:
    async with AsyncAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
        created, cluster = await asyncio.gather(
            admin.create_topics(NewTopic("new", partitions=2)), admin.describe_cluster()
        )
        assert created["new"].partitions == 2
        assert [node.id for node in cluster.nodes] == [1, 2, 3]
        with pytest.raises(monedula.errors.TopicExistsError):
            await admin.create_topics("new")
        await admin.alter_group_offsets("etl", {("new", 0): 0})
        assert (await admin.group_lag("etl")).total == 0
        await admin.delete_topics("new")


async def test_a_cancelled_call_ends_at_once_and_others_go_on(broker: Broker) -> None:
    held = broker.fault(api="ListGroups", hold=True)
    # Every broker is asked for its groups, and answers no later request on that connection before.
    async with AsyncAdmin(bootstrap_servers=broker.bootstrap_servers, request_timeout_ms=1000) as admin:
        waiting = asyncio.create_task(admin.list_groups())
        await asyncio.to_thread(held.wait, 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert "orders" in await admin.list_topics()
        held.release()


def test_settings_of_consumers_are_taken_with_a_warning(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    with open_admin(broker, group_id="etl") as admin:
        admin.list_topics()
    assert "group_id is a setting of consumers; this admin does without" in caplog.text
    with pytest.raises(monedula.ConfigError, match=r"did you mean bootstrap\.servers"):
        Admin(bootstrap_server="localhost:9092")


def test_closing_ends_waits_in_other_threads(broker: Broker) -> None:
    held, admin = broker.fault(api="ListGroups", hold=True), open_admin(broker)
    raised: list[BaseException] = []

    def work() -> None:
        try:
            admin.list_groups()
        except monedula.errors.ClosedError as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    held.wait(1)
    admin.close()
    thread.join(timeout=20)
    assert len(raised) == 1
    with pytest.raises(monedula.errors.ClosedError):
        admin.list_topics()
    admin.close()
    held.release()


def test_both_faces_have_the_same_verbs() -> None:
    def verbs(face: type) -> set[str]:
        return {name for name in dir(face) if not name.startswith("_")}

    assert verbs(Admin) == verbs(AsyncAdmin)
    assert len(verbs(Admin)) >= 21


INTERRUPT = """
import monedula.testing
broker = monedula.testing.Broker()
admin = monedula.Admin(bootstrap_servers=broker.bootstrap_servers)
admin.list_topics()
held = broker.fault(api="ListGroups", hold=True)

def strike():
    held.wait(1)
    struck.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)

struck = []
threading.Thread(target=strike).start()
try:
    admin.list_groups()
except KeyboardInterrupt:
    print(time.monotonic() - struck[0])
held.remove()
assert admin.list_groups() == {}
admin.close()
broker.stop()
"""


def test_ctrl_c_ends_a_wait() -> None:
    late = float(run(INTERRUPT))
    assert late < 0.1 + SLACK_SECONDS, f"{late} s after Ctrl-C"


EXITING = """
import monedula.testing
broker = monedula.testing.Broker(topics={"orders": 1})
admins = [monedula.Admin(bootstrap_servers=broker.bootstrap_servers) for _ in range(3)]
assert all("orders" in admin.list_topics() for admin in admins)
held = broker.fault(api="ListGroups", hold=True)
threading.Thread(target=admins[0].list_groups, daemon=True).start()
held.wait(1)
print("done")
"""


def test_an_exit_ends_administrators_that_were_left_open() -> None:
    assert run(EXITING).strip() == "done"


FORKED = """
import monedula.testing
broker = monedula.testing.Broker(topics={"orders": 1})
servers = broker.bootstrap_servers
admin = monedula.Admin(bootstrap_servers=servers)
admin.list_topics()
child = os.fork()
if child == 0:
    signal.alarm(120)
    for use in (admin.list_topics, admin.close, lambda: admin.group_lag("etl")):
        try:
            use()
        except monedula.errors.ForkError as error:
            assert "Make a new one in the child" in str(error)
        else:
            os._exit(1)
    with monedula.Admin(bootstrap_servers=servers) as own:
        assert "orders" in own.list_topics()
    os._exit(7)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 7
assert "orders" in admin.list_topics()
print("done")
"""


def test_a_forked_child_makes_its_own() -> None:
    assert run(FORKED).strip() == "done"
