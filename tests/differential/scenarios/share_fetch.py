"""ShareFetch and ShareAcknowledge (KIP-932): sessions, what is acquired and acknowledged, and dead letters."""

from typing import Any

from tests.differential.batches import batch
from tests.differential.registry import scenario
from tests.differential.scenarios.produce import LATEST, Producer
from tests.differential.scenarios.share_members import (
    ACCEPT,
    GAP,
    MEBIBYTE,
    REJECT,
    RELEASE,
    RENEW,
    UNKNOWN_ID,
    ShareMember,
    configured,
    filled,
    offsets,
    seen,
    sharing,
)
from tests.differential.scenarios.transactions import TV2, Transactional
from tests.differential.script import Answer, Script

FETCH = (1, 2)


@scenario("ShareFetch", FETCH)
def accepts(script: Script, version: int) -> None:
    member, _, topic = sharing(script, version=version)
    member.take("takes all", topic=topic)
    offsets(script, member.group, "nothing is stored yet")
    member.acknowledge("accepts some", topic, [(0, 1, [ACCEPT]), (2, 3, [ACCEPT, RELEASE])])
    offsets(script, member.group, "three are accepted")
    member.take("gets the released one")
    member.fetch("accepts with a fetch", [(3, 5, [ACCEPT])], topic=topic)
    offsets(script, member.group, "all are accepted")
    offsets(script, member.group, "version 0", version=0)
    member.fetch("there is no more")
    member.fetch("closes", epoch=-1)
    member.fetch("after the end", epoch=1)


@scenario("ShareFetch")
def limits_records(script: Script) -> None:
    member, _, topic = sharing(script, batches=5)
    member.take("a soft limit", topic=topic, max_records=3)
    member.take("a strict limit", max_records=3, shareAcquireMode=1)
    member.take("the rest", max_records=1)
    member.fetch("nothing", max_records=0)
    member.fetch("an unknown mode", max_records=1, shareAcquireMode=2)
    member.fetch("a negative limit", max_records=-1)


@scenario("ShareFetch")
def ranges_are_of_the_wished_size(script: Script) -> None:
    member, _, topic = sharing(script, batches=5)
    body = member.fetching(topic=topic, wait_ms=500) | {"batchSize": 3}

    def acquired() -> Answer | None:
        answer = member.fetches.ask("ShareFetch", 2, body | {"shareSessionEpoch": member.session}, retry_on=())
        member.advance(answer, body | {"shareSessionEpoch": member.session})
        return answer if any(one["acquired"] for one in seen(answer)["partitions"]) else None

    answer = script.until(acquired, "ranges")
    ranges = answer["responses"][0]["partitions"][0]["acquiredRecords"]
    script.record("ShareFetch", ranges, 2, "ranges")


@scenario("ShareAcknowledge", FETCH)
def refuses_acknowledgements(script: Script, version: int) -> None:
    member, name, topic = sharing(script, version=version)
    other = ShareMember(script, member.group, "b", name, version=version)
    other.join()
    member.take("takes two batches", topic=topic, max_records=3)
    other.take("takes the third", topic=topic)
    for label, acknowledged in (
        ("of another member", [(4, 5, [ACCEPT])]),
        ("partly of another member", [(0, 1, [ACCEPT]), (4, 4, [ACCEPT])]),
        ("beyond the end", [(6, 9, [ACCEPT])]),
        ("across the end", [(0, 9, [ACCEPT])]),
        ("backwards", [(1, 0, [ACCEPT])]),
        ("overlapping", [(0, 1, [ACCEPT]), (1, 2, [ACCEPT])]),
        ("not ascending", [(2, 3, [ACCEPT]), (0, 1, [ACCEPT])]),
        ("without a type", [(0, 1, [])]),
        ("with two types of three", [(0, 2, [ACCEPT, ACCEPT])]),
        ("with an unknown type", [(0, 1, [5])]),
        ("with a negative type", [(0, 1, [-1])]),
        ("with a renewal that is not announced", [(0, 1, [RENEW])]),
        ("without batches", []),
    ):
        member.acknowledge(label, topic, acknowledged)
    member.acknowledge("of an unknown topic", UNKNOWN_ID, [(0, 1, [ACCEPT])])
    member.acknowledge("of a partition that is not", topic, [(0, 1, [ACCEPT])], partition=7)
    member.acknowledge("in order", topic, [(0, 3, [ACCEPT])])
    member.acknowledge("once more", topic, [(0, 3, [ACCEPT])])
    other.acknowledge("from below the start", topic, [(2, 5, [ACCEPT])])
    member.acknowledge("with nothing in flight", topic, [(6, 6, [ACCEPT])])


@scenario("ShareFetch")
def sessions(script: Script) -> None:
    member, _, topic = sharing(script)
    member.fetch("without a session", epoch=1)
    member.fetch("closes none", epoch=-1)
    member.acknowledge("without a session", topic, [(0, 0, [ACCEPT])], epoch=1)
    member.acknowledge("opens none", topic, [(0, 0, [ACCEPT])], epoch=0)
    member.fetch("opens with acknowledgements", [(0, 0, [ACCEPT])], topic=topic, epoch=0)
    member.take("opens", topic=topic, max_records=2)
    session = member.session
    member.fetch("a wrong epoch", epoch=session + 1)
    member.fetch("a repeated epoch", epoch=session - 1)
    member.acknowledge("a wrong epoch", topic, [(0, 0, [ACCEPT])], epoch=session + 1)
    member.acknowledge("epoch 0 with a session", topic, [(0, 0, [ACCEPT])], epoch=0)
    member.acknowledge("the right epoch", topic, [(0, 0, [ACCEPT])])
    member.fetch("opens with acknowledgements again", [(1, 1, [ACCEPT])], topic=topic, epoch=0)
    member.session = 0
    member.take("opens again, which releases", topic=topic, max_records=1)
    forgotten = [{"topicId": topic, "partitions": [0]}]
    member.fetch("forgets", forgottenTopicsData=forgotten)
    member.fetch("has nothing to fetch")
    member.fetch("acknowledges what it forgot", [(1, 1, [ACCEPT])], topic=topic, max_records=1)
    member.fetch("has it in the session again", max_records=1)
    member.fetch("closes and forgets", epoch=-1, forgottenTopicsData=forgotten)
    member.fetch("closes", epoch=-1)
    offsets(script, member.group, "after it")
    member.session = 0
    member.take("what was released", topic=topic)
    member.acknowledge("closes", topic, [(2, 2, [ACCEPT])], epoch=-1)
    member.session = 0
    member.take("what was released again", topic=topic)


@scenario("ShareFetch")
def refuses_fetches(script: Script) -> None:
    member, _, topic = sharing(script)
    bad = script.member()
    whole = member.fetching(topic=topic)
    for label, more in (
        ("no group", {"groupId": None}),
        ("an empty group", {"groupId": ""}),
        ("no member", {"memberId": None}),
        ("an empty member", {"memberId": ""}),
        ("a member id of 36", {"memberId": "m" * 36, "topics": []}),
        ("a member id of 37", {"memberId": "m" * 37, "topics": []}),
        ("an epoch below -1", {"shareSessionEpoch": -2}),
        (
            "an unknown topic",
            {"memberId": "n", "topics": [{"topicId": UNKNOWN_ID, "partitions": [member.partition(())]}]},
        ),
        (
            "no such partition",
            {"memberId": "o", "topics": [{"topicId": topic, "partitions": [member.partition((), 7)]}]},
        ),
        ("renews with limits", {"memberId": "p", "isRenewAck": True}),
        ("no partitions", {"memberId": "q", "topics": []}),
    ):
        bad.call("ShareFetch", 2, {**whole, **more}, label=label, keep=seen, retry_on=())
    stray = {**whole, "groupId": script.name("stray"), "memberId": "r", "maxWaitMs": 500}

    def told() -> Answer | None:
        answer = bad.ask("ShareFetch", 2, stray, retry_on=())
        return answer if seen(answer)["partitions"] else None

    script.record("ShareFetch", seen(script.until(told, "an error")), 2, "a group that is not")


@scenario("ShareFetch")
def a_connection_that_ends_releases(script: Script) -> None:
    member, name, topic = sharing(script)
    other = ShareMember(script, member.group, "b", name)
    other.join()
    member.take("takes all", topic=topic)
    other.fetch("gets nothing", topic=topic)
    member.fetches.connection.close()
    other.take("gets all")


@scenario("ShareFetch")
def any_connection_goes_on_with_a_session(script: Script) -> None:
    member, _, topic = sharing(script)
    member.take("takes all", topic=topic)
    member.fetches = script.member("another connection")
    member.acknowledge("releases some", topic, [(0, 1, [RELEASE])])
    member.take("gets them")


@scenario("ShareFetch")
def delivers_so_often(script: Script) -> None:
    member, _, topic = sharing(script, batches=1, share_delivery_count_limit=4)
    script.record("more", None)
    producer = Producer(script, script.name("topic"), LATEST)
    producer.produce("more", batch(*(("k", str(number)) for number in range(8))))
    member.take("first", topic=topic)
    for number in (2, 3, 4):
        member.fetch(f"releases {number - 1}", [(0, 9, [RELEASE])] if number < 4 else [], topic=topic, max_records=0)
        member.take(f"delivery {number}")
    offsets(script, member.group, "delivered")


@scenario("ShareFetch")
def throttles_deliveries(script: Script) -> None:
    topic = script.topic()
    producer = Producer(script, topic, LATEST)
    producer.produce("eight", batch(*(("k", str(number)) for number in range(8))))
    group = script.name("group")
    configured(script, group)
    member = ShareMember(script, group, "a", topic)
    member.join(1)
    topic_id = script.topic_id(topic)
    member.take("delivery 1", topic=topic_id)
    for number in (2, 3):
        member.acknowledge(f"releases {number - 1}", topic_id, [(0, 7, [RELEASE])])
        member.take(f"delivery {number}")
    member.acknowledge("releases 3", topic_id, [(0, 7, [RELEASE])])
    member.take("half of them a fourth time")
    member.take("the other half")
    member.acknowledge("releases the first half", topic_id, [(0, 3, [RELEASE])])
    member.take("one a fifth time")
    member.acknowledge("releases it", topic_id, [(0, 0, [RELEASE])])
    offsets(script, group, "one is archived")
    member.take("the next one")


@scenario("ShareAcknowledge")
def renews(script: Script) -> None:
    member, _, topic = sharing(script, share_record_lock_duration_ms=1000)
    member.take("takes all", topic=topic)
    member.acknowledge("renews without saying so", topic, [(0, 0, [RENEW])])
    member.acknowledge("renews", topic, [(0, 5, [RENEW])], isRenewAck=True)
    member.acknowledge("renews and accepts", topic, [(0, 0, [ACCEPT]), (1, 5, [RENEW])], isRenewAck=True)
    nothing = {"max_records": 0, "min_bytes": 0, "isRenewAck": True, "maxBytes": 0}
    member.fetch("renews with a fetch", [(1, 5, [RENEW])], topic=topic, **nothing)
    member.fetch("renews with limits", [(1, 5, [RENEW])], topic=topic, isRenewAck=True)
    member.take_all("what was not renewed any more", 5, topic=topic)
    member.acknowledge("renews what is done", topic, [(0, 0, [RENEW])], isRenewAck=True)


@scenario("ShareAcknowledge")
def may_not_renew(script: Script) -> None:
    member, _, topic = sharing(script, share_renew_acknowledge_enable=False)
    member.take("takes all", topic=topic)
    member.acknowledge("renews", topic, [(0, 5, [RENEW])], isRenewAck=True)
    member.acknowledge("accepts", topic, [(0, 5, [ACCEPT])], isRenewAck=True)


@scenario("ShareFetch")
def locks_end(script: Script) -> None:
    member, name, topic = sharing(script, share_record_lock_duration_ms=1000)
    other = ShareMember(script, member.group, "b", name)
    other.join()
    member.take("takes all", topic=topic)
    other.take("gets them when the locks are over", topic=topic)
    member.acknowledge("is late", topic, [(0, 5, [ACCEPT])])
    other.acknowledge("accepts", topic, [(0, 5, [ACCEPT])])


@scenario("ShareFetch")
def locks_so_many(script: Script) -> None:
    member, name, topic = sharing(script, batches=0, share_partition_max_record_locks=100)
    producer = Producer(script, name, LATEST)
    for number in range(3):
        producer.produce(f"sixty {number}", batch(*(("k", str(each)) for each in range(60))))
    member.take("takes what it may", topic=topic)
    member.fetch("gets no more")
    member.acknowledge("releases one", topic, [(1, 1, [RELEASE])])
    member.take("gets the one")
    member.acknowledge("accepts", topic, [(0, 59, [ACCEPT])])
    member.take("gets the rest")


@scenario("ShareFetch")
def begins_with_the_latest(script: Script) -> None:
    topic, topic_id = filled(script)
    group = script.name("group")
    configured(script, group, share_auto_offset_reset="latest")
    member = ShareMember(script, group, "a", topic)
    member.join(1)

    def opened() -> bool | None:
        answer = member.fetches.ask("ShareFetch", 2, member.fetching(topic=topic_id, epoch=0, wait_ms=500))
        return answer["errorCode"] == 0 or None

    script.until(opened, "a session")
    member.session = 1
    Producer(script, topic, LATEST).produce("new", batch(("k", "new")))
    member.take("only what is new")
    offsets(script, group, "before an acknowledgement")
    member.acknowledge("accepts", topic_id, [(6, 6, [ACCEPT])])
    offsets(script, group, "after it")


@scenario("ShareFetch")
def leaves_out_what_was_aborted(script: Script) -> None:
    topic = script.topic()
    Producer(script, topic, LATEST).produce("before", batch(("k", "plain")))
    producer = Transactional(script, "producer", TV2, topic)
    producer.init()
    for number, committed in ((0, False), (1, True)):
        producer.send(f"in {number}")
        producer.end(committed)
        producer.completed()
    for level in ("read_committed", "read_uncommitted"):
        group = script.name(level)
        configured(script, group, share_isolation_level=level)
        member = ShareMember(script, group, "a", topic)
        member.join(1)
        member.take_all(level, 3 if level == "read_committed" else 5, topic=script.topic_id(topic))
        offsets(script, group, level)


@scenario("ShareFetch")
def writes_dead_letters(script: Script) -> None:
    dead = f"dlq.{script.name('letters')}"
    new = {
        "name": dead,
        "numPartitions": 1,
        "replicationFactor": 1,
        "configs": [{"name": "errors.deadletterqueue.group.enable", "value": "true"}],
    }
    script.admin.ask("CreateTopics", 7, {"topics": [new], "timeoutMs": 20_000})
    script.wait_led(dead, 1)
    configs = {"errors_deadletterqueue_topic_name": dead, "share_delivery_count_limit": 2}
    for copied in (False, True):
        topic, topic_id = filled(script, stem=f"copied-{copied}".lower())
        group = script.name(f"copied-{copied}".lower())
        configured(script, group, errors_deadletterqueue_copy_record_enable=copied, **configs)
        member = ShareMember(script, group, "a", topic)
        member.join(1)
        member.take("first", topic=topic_id)
        member.acknowledge("decides", topic_id, [(0, 3, [ACCEPT, REJECT, RELEASE, GAP]), (4, 5, [ACCEPT])])
        member.take("again")
        member.acknowledge("releases again", topic_id, [(2, 2, [RELEASE])])

    def letters() -> Answer | None:
        wanted = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": MEBIBYTE, "currentLeaderEpoch": -1}
        body: dict[str, Any] = {
            "replicaId": -1,
            "maxWaitMs": 100,
            "minBytes": 1,
            "maxBytes": MEBIBYTE,
            "sessionEpoch": -1,
        }
        body |= {"topics": [{"topic": dead, "partitions": [wanted]}]}
        answer = script.admin.ask("Fetch", 12, body)
        read = [record for each in answer["responses"][0]["partitions"][0]["records"] for record in each["records"]]
        told = [{key: record[key] for key in ("key", "value", "headers")} for record in read]
        return {"letters": told} if len(told) >= 4 else None

    script.record("letters", script.until(letters, "dead letters"))
