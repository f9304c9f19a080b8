"""DescribeLogDirs: what each node has on its disk."""

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
