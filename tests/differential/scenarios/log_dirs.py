"""DescribeLogDirs and AlterReplicaLogDirs: what each node has on its disk, and where."""

from typing import Any

from tests.differential.registry import scenario
from tests.differential.scenarios.log_offsets import timed
from tests.differential.script import Answer, Script

DESCRIBE = range(1, 6)


def in_one_place(answer: Answer) -> Any:
    """Paths are compared only in that there is one."""
    if "results" not in answer:
        return answer
    return {**answer, "results": [{**each, "logDir": each["logDir"][:1]} for each in answer["results"]]}


@scenario("DescribeLogDirs", DESCRIBE)
def sizes(script: Script, version: int) -> None:
    topic = timed(script)
    member = script.member()

    def call(label: str, *asked: tuple[str, list[int]]) -> None:
        body = {"topics": [{"topic": name, "partitions": partitions} for name, partitions in asked]}
        member.call("DescribeLogDirs", version, body, label=label, keep=in_one_place)

    call("both", (topic, [0, 1]))
    call("one", (topic, [1]))
    call("one that is not there", (topic, [1, 7]))
    call("none of it", (topic, []))
    call("twice", (topic, [0]), (topic, [0, 1]))
    call("unknown topic", (script.name("nobody"), [0]))
    call("nothing")

    def of_this(answer: Answer) -> Any:
        kept = in_one_place(answer)
        for each in kept["results"]:
            each["topics"] = [found for found in each["topics"] if found["name"] == topic]
        return kept

    member.call("DescribeLogDirs", version, {"topics": None}, label="all", keep=of_this)


@scenario("DescribeLogDirs", (1, 5), nodes=3)
def of_each_node(script: Script, version: int) -> None:
    topic = script.topic("placed", placed=[[2], [1]])
    body = {"topics": [{"topic": topic, "partitions": [0, 1]}]}
    for node in (1, 2, 3):
        member = script.member(node=node)
        member.call("DescribeLogDirs", version, body, label=f"node {node}", keep=in_one_place)


@scenario("AlterReplicaLogDirs", (1, 2), nodes=3)
def to_where_they_are(script: Script, version: int) -> None:
    topic = script.topic("placed", placed=[[1], [2]])
    member = script.member()
    found = script.admin.ask("DescribeLogDirs", 5, {"topics": [{"topic": topic, "partitions": [0]}]})
    here = found["results"][0]["logDir"]

    def move(label: str, *dirs: tuple[str, str, list[int]]) -> None:
        asked = [{"path": path, "topics": [{"name": name, "partitions": at}]} for path, name, at in dirs]
        member.call("AlterReplicaLogDirs", version, {"dirs": asked}, label=label)

    move("here", (here, topic, [0]))
    move("on another node", (here, topic, [1]))
    move("both", (here, topic, [0, 1]))
    move("a partition that is not there", (here, topic, [7]))
    move("an unknown topic", (here, script.name("nobody"), [0]))
    move("elsewhere", ("/no/such/directory", topic, [0]))
    move("a path that is none", ("", topic, [0]))
    move("here, then elsewhere", (here, topic, [0]), ("/no/such/directory", topic, [0]))
    move("elsewhere, then here", ("/no/such/directory", topic, [0]), (here, topic, [0]))
    move("a long name", (here, "x" * 220, [0]))
    move("no partitions", (here, topic, []))
    move("nothing")
