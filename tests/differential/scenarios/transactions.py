"""Producer ids and transactions, as clients before KIP-890 end them (TV1) and after it (TV2)."""

from collections.abc import Sequence
from typing import Any

from tests.differential.batches import batch
from tests.differential.registry import scenario
from tests.differential.scenarios.classic import UNKNOWN, stable
from tests.differential.scenarios.fetch import fetching, want
from tests.differential.scenarios.produce import Producer
from tests.differential.script import CONCURRENT_TRANSACTIONS, SETTLING, Answer, Member, Script

INIT = range(6)
END = range(6)
PASSING = (*SETTLING[3:], CONCURRENT_TRANSACTIONS)
TV1, TV2 = 1, 2
# Versions as a client of that time has them: AddPartitionsToTxn, Produce, EndTxn, TxnOffsetCommit.
VERSIONS_OF = {TV1: (3, 11, 4, 4), TV2: (3, 12, 5, 5)}
LONG_MS = 60_000
SHORT_MS = 300


class Transactional:
    """A transactional producer."""

    def __init__(self, script: Script, name: str, kind: int, topic: str) -> None:
        self.script = script
        self.name = name
        self.kind = kind
        self.topic = topic
        self.id = script.name(name)
        self.member: Member = script.member(name)
        self.producer_id = -1
        self.epoch = -1
        self.sequence: dict[int, int] = {}
        self.add_version, self.produce_version, self.end_version, self.offsets_version = VERSIONS_OF[kind]

    @property
    def who(self) -> dict[str, Any]:
        return {"transactionalId": self.id, "producerId": self.producer_id, "producerEpoch": self.epoch}

    def init(self, version: int = 5, timeout_ms: int = LONG_MS, **more: Any) -> Answer:
        body = {"transactionalId": self.id, "transactionTimeoutMs": timeout_ms, **more}
        answer = self.member.call("InitProducerId", version, body, label=f"{self.name} inits", retry_on=PASSING)
        if answer.get("errorCode") == 0:
            self.producer_id, self.epoch = answer["producerId"], answer["producerEpoch"]
            self.sequence.clear()
        return answer

    def add(self, *partitions: int, label: str = "", **more: Any) -> Answer:
        topics = [{"name": self.topic, "partitions": list(partitions)}]
        body = {
            "v3AndBelowTransactionalId": self.id,
            "v3AndBelowProducerId": self.producer_id,
            "v3AndBelowProducerEpoch": self.epoch,
            "v3AndBelowTopics": topics,
            **more,
        }
        label = label or f"{self.name} adds"
        return self.member.call("AddPartitionsToTxn", self.add_version, body, label=label, retry_on=PASSING)

    def send(self, value: str, partition: int = 0, *, label: str = "", added: bool = False, **more: Any) -> Answer:
        """Produce a record, adding the partition first where the client has to."""
        if self.kind == TV1 and not added:
            self.add(partition)
        sequence = self.sequence.get(partition, 0)
        who = {"producer_id": self.producer_id, "producer_epoch": self.epoch, "sequence": sequence, **more}
        producer = Producer(self.script, self.topic, self.produce_version)
        producer.member = self.member
        body = producer.body(batch(("k", value), transactional=True, **who), partition, transactionalId=self.id)
        label = label or f"{self.name} sends: {value}"
        answer = self.member.call("Produce", self.produce_version, body, label=label, retry_on=PASSING)
        if answer.get("responses") and answer["responses"][0]["partitionResponses"][0]["errorCode"] == 0:
            self.sequence[partition] = sequence + 1
        return answer

    def end(self, commit: bool, *, label: str = "", version: int | None = None, **more: Any) -> Answer:
        body = {**self.who, "committed": commit, **more}
        label = label or f"{self.name} {'commits' if commit else 'aborts'}"
        version = self.end_version if version is None else version
        answer = self.member.call("EndTxn", version, body, label=label, retry_on=PASSING)
        if answer.get("errorCode") == 0 and version >= 5:
            self.producer_id, self.epoch = answer["producerId"], answer["producerEpoch"]
            self.sequence.clear()
        return answer

    def state(self) -> str:
        answer = self.script.admin.ask("DescribeTransactions", 0, {"transactionalIds": [self.id]})
        return str(answer["transactionStates"][0]["transactionState"])

    def completed(self) -> None:
        """Wait until the markers are written."""
        self.script.until(lambda: self.state() in ("CompleteCommit", "CompleteAbort", "Empty") or None, "the markers")

    def described(self, label: str = "") -> None:
        self.script.admin.call("DescribeTransactions", 0, {"transactionalIds": [self.id]}, label=label or "described")


def contents(script: Script, topic: str, *partitions: int, label: str = "contents") -> None:
    """Compare the records that read_committed and read_uncommitted see."""
    for isolation in (0, 1):
        body = fetching(12, [(topic, "", [want(0, index) for index in partitions or (0,)])], isolationLevel=isolation)
        script.member().call("Fetch", 12, body, label=f"{label}, {('uncommitted', 'committed')[isolation]}")


@scenario("InitProducerId", INIT)
def idempotent(script: Script, version: int) -> None:
    member = script.member()

    def call(label: str, **more: Any) -> Answer:
        body = {"transactionalId": None, "transactionTimeoutMs": LONG_MS, **more}
        return member.call("InitProducerId", version, body, label=label)

    first = call("one")
    call("another")
    call("no timeout", transactionTimeoutMs=0)
    call("a negative timeout", transactionTimeoutMs=-1)
    if version >= 3:
        call("with an id", producerId=first["producerId"], producerEpoch=first["producerEpoch"])
        call("with an id and no epoch", producerId=first["producerId"])


@scenario("InitProducerId", INIT)
def transactional(script: Script, version: int) -> None:
    member = script.member()
    name = script.name("id")

    def call(label: str, **more: Any) -> Answer:
        body = {"transactionalId": name, "transactionTimeoutMs": LONG_MS, **more}
        return member.call("InitProducerId", version, body, label=label, retry_on=PASSING)

    call("empty id", transactionalId="")
    call("no timeout", transactionTimeoutMs=0)
    call("a negative timeout", transactionTimeoutMs=-1)
    call("too long a timeout", transactionTimeoutMs=900_001)
    first = call("first")
    second = call("second")
    if version >= 3:
        now = {"producerId": second["producerId"], "producerEpoch": second["producerEpoch"]}
        third = call("who it is", **now)
        call("who it was", **now)
        call("long ago", producerId=first["producerId"], producerEpoch=first["producerEpoch"])
        call("another id", producerId=third["producerId"] + 12345, producerEpoch=0)
        call("an epoch to come", producerId=third["producerId"], producerEpoch=77)
        call("an id without an epoch", producerId=third["producerId"], producerEpoch=-1)
        new = script.name("new id")
        call("a new one with an id", transactionalId=new, producerId=5, producerEpoch=5)


@scenario("EndTxn", (TV1, TV2))
def commit_and_abort(script: Script, kind: int) -> None:
    topic = script.topic(partitions=2)
    producer = Transactional(script, "p", kind, topic)
    producer.init()
    producer.described("new")
    producer.send("committed")
    producer.send("too", 1)
    producer.described("open")
    contents(script, topic, 0, 1, label="open")
    producer.end(True)
    producer.completed()
    contents(script, topic, 0, 1, label="committed")
    producer.send("aborted")
    producer.end(False)
    producer.completed()
    contents(script, topic, 0, 1, label="aborted")
    producer.send("committed again")
    producer.end(True)
    producer.completed()
    producer.described("in the end")
    contents(script, topic, 0, 1, label="in the end")


@scenario("EndTxn", (TV1, TV2))
def interleaved(script: Script, kind: int) -> None:
    """The last stable offset is where the oldest open transaction began."""
    topic = script.topic()
    a, b = Transactional(script, "a", kind, topic), Transactional(script, "b", kind, topic)
    a.init()
    b.init()
    a.send("a1")
    b.send("b1")
    Producer(script, topic, 12).produce("plain", batch(("k", "plain")))
    a.send("a2", label="a sends again", added=True)
    contents(script, topic, label="both open")
    b.end(True)
    b.completed()
    contents(script, topic, label="one open")
    a.end(False)
    a.completed()
    contents(script, topic, label="none open")
    asked = {"partitionIndex": 0, "timestamp": -1}
    body = {"replicaId": -1, "isolationLevel": 1, "topics": [{"name": topic, "partitions": [asked]}]}
    script.member().call("ListOffsets", 7, body, label="the last stable offset")


@scenario("EndTxn", END)
def end_refused(script: Script, version: int) -> None:
    topic = script.topic()
    producer = Transactional(script, "p", TV1 if version < 5 else TV2, topic)
    producer.end(True, version=version, label="an unknown id", producerId=1, producerEpoch=0)
    producer.end(True, version=version, label="an empty id", transactionalId="", producerId=1, producerEpoch=0)
    producer.init()
    producer.end(True, version=version, label="another producer id", producerId=producer.producer_id + 4711)
    producer.end(True, version=version, label="an epoch to come", producerEpoch=producer.epoch + 1)
    producer.end(True, version=version, label="an old epoch", producerEpoch=producer.epoch - 1)
    if version < 5:
        producer.end(True, version=version, label="nothing begun")
        producer.end(False, version=version, label="nothing to abort")
    producer.send("x")
    before = producer.who
    producer.end(True, version=version)
    producer.completed()
    producer.end(True, version=version, label="the same again", **before)
    producer.completed()
    producer.end(False, version=version, label="the other after it", **before)
    producer.completed()
    contents(script, topic)


@scenario("EndTxn")
def nothing_begun_tv2(script: Script) -> None:
    topic = script.topic()
    producer = Transactional(script, "p", TV2, topic)
    producer.init()
    producer.end(False, label="nothing to abort")
    producer.completed()
    producer.end(True, label="nothing to commit")


@scenario("InitProducerId", (TV1, TV2))
def fences(script: Script, kind: int) -> None:
    """A second producer with the same transactional id ends the first one's transaction, and fences it."""
    topic = script.topic()
    first, second = Transactional(script, "p", kind, topic), Transactional(script, "p", kind, topic)
    first.init()
    first.send("lost")
    second.init()
    second.completed()
    contents(script, topic, label="aborted")
    first.send("too late")
    first.add(0, label="too late")
    first.end(True, label="too late")
    first.init(producerId=first.producer_id, producerEpoch=first.epoch)
    second.send("good")
    second.end(True)
    second.completed()
    contents(script, topic)


@scenario("EndTxn", (TV1, TV2))
def times_out(script: Script, kind: int) -> None:
    topic = script.topic()
    producer = Transactional(script, "p", kind, topic)
    producer.init(timeout_ms=SHORT_MS)
    producer.send("too slow")
    script.until(lambda: producer.state() == "CompleteAbort" or None, "the transaction to time out")
    producer.described("timed out")
    contents(script, topic)
    old = producer.who
    producer.send("after it", added=kind == TV2)
    producer.end(True, label="after it", **old)
    producer.init(producerId=producer.producer_id, producerEpoch=producer.epoch)
    producer.send("goes on")
    producer.end(True)
    producer.completed()
    contents(script, topic)


@scenario("Produce", (TV1, TV2))
def transactional_produce_refused(script: Script, kind: int) -> None:
    topic = script.topic(partitions=2)
    producer = Transactional(script, "p", kind, topic)
    producer.init()
    producer.send("not added", 1, added=True)
    producer.send("added", 0)
    producer.send("an epoch to come", 0, added=True, producer_epoch=producer.epoch + 5)
    producer.send("an unknown producer", 0, added=True, producer_id=producer.producer_id + 4711)
    producer.send("a gap", 0, added=True, sequence=7)
    producer.send("unknown partition", 9, added=True)
    plain = Producer(script, topic, producer.produce_version)
    records = batch(
        ("k", "v"), transactional=True, producer_id=producer.producer_id, producer_epoch=producer.epoch, sequence=1
    )
    plain.produce("no transactional id", records)
    records = batch(("k", "v"), producer_id=producer.producer_id, producer_epoch=producer.epoch, sequence=1)
    plain.produce("not transactional", records, transactionalId=producer.id)
    plain.produce("another's transactional id", records, transactionalId=script.name("another"))
    producer.end(False)
    producer.completed()
    contents(script, topic, 0, 1)


@scenario("AddPartitionsToTxn", range(6))
def add_partitions(script: Script, version: int) -> None:
    topic = script.topic(partitions=3)
    producer = Transactional(script, "p", TV1, topic)
    producer.init()

    def call(label: str, *partitions: int, verify: bool = False, names: Sequence[str] = (topic,), **more: Any) -> None:
        who = {**producer.who, **more}
        topics = [{"name": name, "partitions": list(partitions)} for name in names]
        body: dict[str, Any] = {"transactions": [{**who, "verifyOnly": verify, "topics": topics}]}
        if version < 4:
            keys = {"transactionalId": "TransactionalId", "producerId": "ProducerId", "producerEpoch": "ProducerEpoch"}
            body = {f"v3AndBelow{keys[key]}": value for key, value in who.items()} | {"v3AndBelowTopics": topics}
        producer.member.call("AddPartitionsToTxn", version, body, label=label, retry_on=PASSING)

    if version >= 4:
        call("verify what is not there", 0, verify=True)
    call("one", 0)
    call("again", 0)
    call("two more", 1, 2)
    call("an unknown partition", 0, 9)
    call("an unknown topic", 0, names=(topic, script.name("missing")))
    call("none")
    call("an unknown id", 0, transactionalId=script.name("nobody"))
    call("an empty id", 0, transactionalId="")
    call("another producer id", 0, producerId=producer.producer_id + 4711)
    call("an epoch to come", 0, producerEpoch=producer.epoch + 1)
    call("an old epoch", 0, producerEpoch=producer.epoch - 1)
    if version >= 4:
        call("verify", 0, verify=True)
        call("verify one that is missing too", 0, 7, verify=True)
    producer.described("in the end")


@scenario("TxnOffsetCommit", range(7))
def offsets(script: Script, version: int) -> None:
    topic = script.topic(partitions=2)
    kind = TV2 if version >= 5 else TV1
    producer = Transactional(script, "p", kind, topic)
    producer.init()
    group = script.name("group")
    reader = script.member()
    topic_id = script.topic_id(topic)

    def commit(
        label: str, offset: int, partition: int = 0, named: str = topic, id_of: str = topic_id, **more: Any
    ) -> None:
        partitions = [{"partitionIndex": partition, "committedOffset": offset, "committedMetadata": "m"}]
        topics = [{"name": named, "topicId": id_of, "partitions": partitions}]
        body = {**producer.who, "groupId": group, "topics": topics, **more}
        producer.member.call("TxnOffsetCommit", version, body, label=label, retry_on=PASSING)

    def look(label: str) -> None:
        asked = {"groupId": group, "topics": [{"name": topic, "partitionIndexes": [0, 1]}]}
        reader.call("OffsetFetch", 8, {"groups": [asked]}, label=label)
        reader.call("OffsetFetch", 8, {"groups": [asked], "requireStable": True}, label=f"{label}, stable ones")

    def settled(label: str) -> None:
        """Have the offsets compared when no transaction has any of them pending."""
        asked = {
            "groups": [{"groupId": group, "topics": [{"name": topic, "partitionIndexes": [0, 1]}]}],
            "requireStable": True,
        }
        reader.ask("OffsetFetch", 8, asked, retry_on=(88,))
        look(label)

    if kind == TV1:
        commit("not added", 3)
        producer.member.call("AddOffsetsToTxn", 3, {**producer.who, "groupId": group}, label="adds", retry_on=PASSING)
    commit("first", 5)
    look("open")
    producer.described("open")
    reader.call("DescribeGroups", 6, {"groups": [group]}, label="the group")
    reader.call(
        "OffsetDelete",
        0,
        {"groupId": group, "topics": [{"name": topic, "partitions": [{"partitionIndex": 0}]}]},
        label="delete",
    )
    producer.end(True)
    settled("committed")
    if kind == TV1:
        producer.member.call("AddOffsetsToTxn", 3, {**producer.who, "groupId": group}, label="adds", retry_on=PASSING)
    commit("second", 9)
    producer.end(False)
    settled("aborted")
    commit("an epoch to come", 1, producerEpoch=producer.epoch + 3)
    commit("empty group", 1, groupId="")
    commit("unknown partition", 1, 9)
    commit("unknown topic", 1, named=script.name("missing"), id_of="AAAAAAAAAAAAAAAAAAAAZA")
    commit("no topic", 1, named="", id_of="AAAAAAAAAAAAAAAAAAAAAA")
    commit("unknown member", 1, memberId=UNKNOWN, generationIdOrMemberEpoch=1)
    commit("a generation", 1, generationIdOrMemberEpoch=5)
    commit("a generation of no group", 1, groupId=script.name("nobody's"), generationIdOrMemberEpoch=5)


@scenario("TxnOffsetCommit", (3, 5, 6))
def offsets_of_members(script: Script, version: int) -> None:
    topic = script.topic()
    producer = Transactional(script, "p", TV2 if version >= 5 else TV1, topic)
    producer.init()
    (a,) = stable(script, "a")
    producer.member.call("AddOffsetsToTxn", 3, {**producer.who, "groupId": a.group}, label="adds", retry_on=PASSING)

    def commit(label: str, member: str, generation: int, instance: str | None = None) -> None:
        partitions = [{"partitionIndex": 0, "committedOffset": 5}]
        topics = [{"name": topic, "topicId": script.topic_id(topic), "partitions": partitions}]
        body = {**producer.who, "groupId": a.group, "topics": topics}
        body |= {"memberId": member, "generationIdOrMemberEpoch": generation, "groupInstanceId": instance}
        producer.member.call("TxnOffsetCommit", version, body, label=label, retry_on=PASSING)

    commit("another generation", a.id, a.generation + 1)
    commit("unknown", UNKNOWN, a.generation)
    commit("unknown instance", a.id, a.generation, "nobody")
    commit("nobody", "", -1)
    commit("good", a.id, a.generation)
    producer.end(True)


@scenario("AddOffsetsToTxn", range(5))
def add_offsets(script: Script, version: int) -> None:
    topic = script.topic()
    producer = Transactional(script, "p", TV1, topic)
    producer.init()

    def call(label: str, **more: Any) -> None:
        body = {**producer.who, "groupId": script.name("group"), **more}
        producer.member.call("AddOffsetsToTxn", version, body, label=label, retry_on=PASSING)

    call("first")
    call("again")
    call("an unknown id", transactionalId=script.name("nobody"))
    call("an empty id", transactionalId="")
    call("another producer id", producerId=producer.producer_id + 4711)
    call("an epoch to come", producerEpoch=producer.epoch + 1)
    call("an old epoch", producerEpoch=producer.epoch - 1)
    call("empty group", groupId="")


@scenario("DescribeTransactions")
def described(script: Script) -> None:
    topic = script.topic(partitions=2)
    producer = Transactional(script, "p", TV2, topic)
    member = script.member()
    member.call("DescribeTransactions", 0, {"transactionalIds": [producer.id]}, label="unknown")
    producer.init()
    producer.send("x")
    producer.send("y", 1)
    member.call("DescribeTransactions", 0, {"transactionalIds": [producer.id, script.name("nobody")]}, label="two")
    member.call("DescribeTransactions", 0, {"transactionalIds": [""]}, label="empty")
    member.call("DescribeTransactions", 0, {"transactionalIds": []}, label="none")
    member.call("DescribeProducers", 0, {"topics": [{"name": topic, "partitionIndexes": [0]}]}, label="in the log")
    producer.end(True)
    producer.completed()
    member.call("DescribeProducers", 0, {"topics": [{"name": topic, "partitionIndexes": [0]}]}, label="committed")


@scenario("ListTransactions", range(3))
def listed(script: Script, version: int) -> None:
    topic = script.topic()
    empty, ongoing, done = (Transactional(script, name, TV2, topic) for name in ("empty", "ongoing", "done"))
    for producer in (empty, ongoing, done):
        producer.init()
    ongoing.send("x")
    done.send("y")
    done.end(True)
    done.completed()

    def mine(answer: Answer) -> Any:
        ours = (empty.id, ongoing.id, done.id)
        states = [state for state in answer.get("transactionStates", []) if state["transactionalId"] in ours]
        return {**answer, "transactionStates": states}

    def call(label: str, **more: Any) -> None:
        script.member().call("ListTransactions", version, more, label=label, keep=mine)

    call("all")
    call("ongoing", stateFilters=["Ongoing"])
    call("two states", stateFilters=["Empty", "CompleteCommit"])
    call("unknown states", stateFilters=["Nonsense", "Ongoing"])
    call("of one producer", producerIdFilters=[done.producer_id])
    call("of an unknown producer", producerIdFilters=[987654321])
    if version >= 1:
        call("long running", durationFilter=1_000_000)
        call("any duration", durationFilter=0)
    if version >= 2:
        call("by pattern", transactionalIdPattern=".*ongoing")
        call("by a bad pattern", transactionalIdPattern="(")
        call("by an empty pattern", transactionalIdPattern="")


@scenario("WriteTxnMarkers", (1, 2))
def markers(script: Script, version: int) -> None:
    topic = script.topic(partitions=2)
    producer = Transactional(script, "p", TV1, topic)
    member = script.member()
    producer.init()
    producer.init()
    producer.send("x")

    def call(label: str, *partitions: int, name: str = topic, **more: Any) -> None:
        marker: dict[str, Any] = {
            "producerId": producer.producer_id,
            "producerEpoch": producer.epoch,
            "transactionResult": False,
            "topics": [{"name": name, "partitionIndexes": list(partitions)}],
            "coordinatorEpoch": 5,
            **more,
        }
        member.call("WriteTxnMarkers", version, {"markers": [marker]}, label=label)
        described = {"topics": [{"name": topic, "partitionIndexes": [0, 1]}]}
        member.call("DescribeProducers", 0, described, label=f"after: {label}")

    call("an unknown topic", 0, name=script.name("missing"))
    call("an unknown partition", 9)
    call("an old epoch", 0, producerEpoch=producer.epoch - 1)
    call("a negative epoch", 0, producerEpoch=-1)
    if version >= 2:
        call("the epoch of the records", 0, transactionVersion=2)
    call("an abort", 0)
    call("again", 0)
    call("an old coordinator", 0, coordinatorEpoch=4)
    call("a commit where it wrote nothing", 1, transactionResult=True)
    call("an unknown producer", 0, producerId=987654321)
    call("nothing")
    member.call("WriteTxnMarkers", version, {"markers": []}, label="no markers")
    contents(script, topic, 0, 1)
