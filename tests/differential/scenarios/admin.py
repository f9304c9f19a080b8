"""Topics come and go: CreateTopics, DeleteTopics, CreatePartitions, ElectLeaders."""

from typing import Any

from tests.differential.registry import scenario
from tests.differential.script import Answer, Script

CREATE = range(2, 8)
DELETE = range(1, 7)
GROW = range(4)
UNKNOWN_ID = "u-BKqQ0ARxOYmLxGzsIqPw"
WAIT = {"timeoutMs": 20_000}


def without_configs(answer: Answer) -> Any:
    """The configs of a topic are compared elsewhere."""
    if "topics" not in answer:
        return answer
    return {"topics": [{k: v for k, v in topic.items() if k != "configs"} for topic in answer["topics"]]}


def new(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "numPartitions": partitions, "replicationFactor": replicas, **more}


@scenario("CreateTopics", CREATE)
def create(script: Script, version: int) -> None:
    member = script.member()
    name = script.name("new")

    def call(label: str, *topics: dict[str, Any], **more: Any) -> None:
        body = {"topics": list(topics), **WAIT, **more}
        member.call("CreateTopics", version, body, label=label, keep=without_configs)

    call("validate only", new(name, 2), validateOnly=True)
    call("create", new(name, 2))
    call("exists", new(name, 2))
    call("exists, validate only", new(name, 2), validateOnly=True)
    call("default counts", new(script.name("default"), -1, -1))
    call("several", new(script.name("several-1")), new(script.name("several-2"), 3))
    call("the same twice", new(script.name("twice")), new(script.name("twice")), new(script.name("once")))
    call("no partitions", new(script.name("none"), 0))
    call("negative partitions", new(script.name("none"), -2))
    call("no replicas", new(script.name("none"), 1, 0))
    call("too many replicas", new(script.name("none"), 1, 9))
    call("none")
    for invalid in ("", ".", "..", "a b", "x" * 250, "ä"):
        call(f"invalid {invalid[:5]!r}", new(invalid))
    call("internal", new("__consumer_offsets"))
    call("collides", new(name.replace(".", "_")))
    call("one is wrong", new(script.name("right")), new("wrong name"))


@scenario("CreateTopics", (2, 5, 7))
def assignments(script: Script, version: int) -> None:
    member = script.member()

    def call(label: str, assigned: list[tuple[int, list[int]]], partitions: int = -1, replicas: int = -1) -> None:
        placed = [{"partitionIndex": index, "brokerIds": brokers} for index, brokers in assigned]
        topic = new(script.name(label.replace(" ", "-")), partitions, replicas, assignments=placed)
        member.call("CreateTopics", version, {"topics": [topic], **WAIT}, label=label, keep=without_configs)

    call("assigned", [(0, [1]), (1, [1])])
    call("with partitions", [(0, [1])], partitions=1)
    call("with replicas", [(0, [1])], replicas=1)
    call("with both", [(0, [1])], partitions=1, replicas=1)
    call("a gap", [(0, [1]), (2, [1])])
    call("twice", [(0, [1]), (0, [1])])
    call("unknown broker", [(0, [9])])
    call("no broker", [(0, [])])
    call("broker twice", [(0, [1, 1])])
    call("negative partition", [(-1, [1])])


@scenario("CreateTopics", (2, 5, 7))
def configs(script: Script, version: int) -> None:
    member = script.member()
    for number, (name, value) in enumerate(
        [
            ("retention.ms", "1000"),
            ("retention.ms", "x"),
            ("retention.ms", "-2"),
            ("retention.ms", None),
            ("no.such.config", "1"),
            ("cleanup.policy", "compact"),
            ("cleanup.policy", "compact,delete"),
            ("cleanup.policy", "burn"),
            ("min.insync.replicas", "0"),
            ("message.timestamp.type", "Whenever"),
            ("compression.type", "snappy"),
            ("compression.type", "rar"),
            ("max.message.bytes", "-1"),
            ("unclean.leader.election.enable", "maybe"),
            ("segment.bytes", "1"),
        ]
    ):
        topic = new(script.name(str(number)), configs=[{"name": name, "value": value}])
        label = f"{name}={value}"
        member.call("CreateTopics", version, {"topics": [topic], **WAIT}, label=label, keep=without_configs)


@scenario("CreateTopics", (5, 7))
def answers_configs(script: Script, version: int) -> None:
    topic = new(script.name("new"), configs=[{"name": "retention.ms", "value": "1000"}])
    script.member().call("CreateTopics", version, {"topics": [topic], **WAIT})


@scenario("DeleteTopics", DELETE)
def delete(script: Script, version: int) -> None:
    member = script.member()
    names = [script.topic(stem) for stem in ("a", "b", "c")]

    def call(label: str, *topics: str) -> None:
        asked = {"topicNames": list(topics), "topics": [{"name": topic} for topic in topics]}
        member.call("DeleteTopics", version, {**asked, **WAIT}, label=label)

    call("one", names[0])
    call("again", names[0])
    call("two and a missing one", names[1], names[2], script.name("missing"))
    call("none")
    call("invalid", "a b")
    call("empty", "")
    last = script.topic("d")
    call("twice", last, last)


@scenario("DeleteTopics", (6,))
def delete_by_id(script: Script, version: int) -> None:
    member = script.member()
    topic = script.topic()
    topic_id = script.topic_id(topic)

    def call(label: str, *topics: dict[str, Any]) -> None:
        member.call("DeleteTopics", version, {"topics": list(topics), **WAIT}, label=label)

    call("name and id", {"name": topic, "topicId": topic_id})
    call("neither", {"name": None})
    call("unknown id", {"name": None, "topicId": UNKNOWN_ID})
    call("id and name of the same", {"name": None, "topicId": topic_id}, {"name": topic})
    call("by id", {"name": None, "topicId": topic_id})
    call("again", {"name": None, "topicId": topic_id})


@scenario("DeleteTopics")
def a_topic_that_comes_again_is_another(script: Script) -> None:
    topic = script.topic()
    script.member().call("DeleteTopics", 6, {"topics": [{"name": topic}], **WAIT})
    missing = {"topics": [{"name": topic}], "allowAutoTopicCreation": False}

    def gone() -> bool | None:
        return script.admin.ask("Metadata", 12, missing, retry_on=())["topics"][0]["errorCode"] == 3 or None

    script.until(gone, "the topic to be gone")
    script.topic()
    script.member().call("Metadata", 12, missing)


@scenario("CreatePartitions", GROW)
def grow(script: Script, version: int) -> None:
    member = script.member()
    topic = script.topic(partitions=2)

    def call(label: str, *topics: dict[str, Any], **more: Any) -> None:
        member.call("CreatePartitions", version, {"topics": list(topics), **WAIT, **more}, label=label)

    def total(count: int, name: str = topic, assigned: list[list[int]] | None = None) -> dict[str, Any]:
        placed = None if assigned is None else [{"brokerIds": brokers} for brokers in assigned]
        return {"name": name, "count": count, "assignments": placed}

    call("validate only", total(3), validateOnly=True)
    call("as many", total(2))
    call("fewer", total(1))
    call("none", total(0))
    call("negative", total(-1))
    call("unknown", total(3, script.name("missing")))
    call("invalid", total(3, "a b"))
    call("more", total(3))
    call("assigned", total(4, assigned=[[1]]))
    call("too few assigned", total(6, assigned=[[1]]))
    call("too many assigned", total(5, assigned=[[1], [1]]))
    call("unknown broker", total(5, assigned=[[9]]))
    call("no broker", total(5, assigned=[[]]))
    call("twice", total(5), total(6))
    script.wait_led(topic, 4)
    member.call("Metadata", 12, {"topics": [{"name": topic}]})


@scenario("ElectLeaders", range(3))
def elect(script: Script, version: int) -> None:
    member = script.member()
    topic = script.topic(partitions=2)

    def call(label: str, kind: int, partitions: list[tuple[str, list[int]]] | None) -> None:
        asked = None if partitions is None else [{"topic": name, "partitions": which} for name, which in partitions]
        keep = None if partitions is not None else lambda answer: {"errorCode": answer.get("errorCode")}
        body = {"electionType": kind, "topicPartitions": asked, **WAIT}
        member.call("ElectLeaders", version, body, label=label, keep=keep)

    call("preferred", 0, [(topic, [0, 1])])
    call("unclean", 1, [(topic, [0])])
    call("unknown partition", 0, [(topic, [7])])
    call("unknown topic", 0, [(script.name("missing"), [0])])
    call("none", 0, [])
    call("all", 0, None)
    if version:
        call("no such type", 5, [(topic, [0])])
