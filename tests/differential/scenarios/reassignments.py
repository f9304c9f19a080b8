"""Partitions move to other nodes: AlterPartitionReassignments, ListPartitionReassignments."""

from typing import Any

from tests.differential.registry import scenario
from tests.differential.script import Script

NODES = 3
WAIT = {"timeoutMs": 20_000}
Move = tuple[str, int, list[int] | None]


class Mover:
    """A client that reassigns partitions, and describes them."""

    def __init__(self, script: Script, version: int) -> None:
        self._script = script
        self._member = script.member()
        self._version = version

    def move(self, label: str, *moves: Move, **more: Any) -> None:
        """Ask for moves, one topic an entry."""
        topics = [
            {"name": topic, "partitions": [{"partitionIndex": index, "replicas": replicas}]}
            for topic, index, replicas in moves
        ]
        body = {"topics": topics, **WAIT, **more}
        self._member.call("AlterPartitionReassignments", self._version, body, label=label)

    def listed(self, label: str, topics: list[tuple[str, list[int]]] | None) -> None:
        """List the reassignments."""
        asked = None if topics is None else [{"name": name, "partitionIndexes": which} for name, which in topics]
        self._member.call("ListPartitionReassignments", 0, {"topics": asked, **WAIT}, label=label)

    def settled(self, label: str, topic: str, replicas: list[int]) -> None:
        """Wait until these nodes hold the partition and all are in sync; then look at it."""
        asked = {"topics": [{"name": topic}]}

        def is_so() -> bool | None:
            found = self._script.admin.ask("Metadata", 12, asked)["topics"][0]["partitions"][0]
            return (found["replicaNodes"] == replicas and sorted(found["isrNodes"]) == sorted(replicas)) or None

        self._script.until(is_so, f"{topic} to be held by {replicas}")
        self._member.call("Metadata", 12, asked, label=label, keep=partition)


def partition(answer: dict[str, Any]) -> Any:
    """The leader and the replicas; the order of the in-sync replicas is random."""
    found = answer["topics"][0]["partitions"][0]
    return {**found, "isrNodes": sorted(found["isrNodes"])}


@scenario("AlterPartitionReassignments", range(2), nodes=NODES)
def moves(script: Script, version: int) -> None:
    mover = Mover(script, version)
    topic = script.topic(placed=[[1, 2], [1, 3]])
    mover.move("nothing moves", (topic, 0, None))
    mover.move("the order", (topic, 0, [2, 1]))
    mover.settled("another order", topic, [2, 1])
    mover.move("one more", (topic, 0, [2, 1, 3]))
    mover.settled("three", topic, [2, 1, 3])
    mover.move("fewer, with the leader", (topic, 0, [1, 3]))
    mover.settled("two", topic, [1, 3])
    mover.move("without the leader", (topic, 0, [2, 3]))
    mover.settled("elsewhere", topic, [2, 3])
    mover.move("no node", (topic, 0, []))
    mover.move("unknown node", (topic, 0, [1, 9]))
    mover.move("twice the same", (topic, 0, [1, 1]))
    mover.move("unknown partition", (topic, 7, [1]))
    mover.move("unknown topic", (script.name("missing"), 0, [1]))
    mover.move("nothing")
    mover.move("two topics", (topic, 1, [2]), (script.name("missing"), 0, None))
    if version:
        mover.move("another number", (topic, 0, [1]), allowReplicationFactorChange=False)
        mover.move("the same number", (topic, 0, [3, 2]), allowReplicationFactorChange=False)


@scenario("ListPartitionReassignments", nodes=NODES)
def under_way(script: Script) -> None:
    mover = Mover(script, 0)
    topic = script.topic(placed=[[1, 2], [2, 1]])
    mover.listed("nothing", [(topic, [0, 1])])
    script.cluster.stop(3)
    try:
        mover.move("to a node that is down", (topic, 0, [1, 3]), (topic, 1, [3]))
        mover.listed("both", [(topic, [0, 1, 7]), (script.name("missing"), [0])])
        mover.listed("one", [(topic, [1])])
        mover.listed("no partition", [(topic, [])])
        mover.listed("all", None)
        mover.move("somewhere else", (topic, 0, [3, 2]))
        mover.listed("changed", [(topic, [0])])
        mover.move("ended", (topic, 0, None))
        mover.settled("where it was", topic, [2, 1])
        mover.listed("the other", None)
    finally:
        script.cluster.start(3)
    asked = {"topics": [{"name": topic}]}

    def arrived() -> bool | None:
        found = script.admin.ask("Metadata", 12, asked)["topics"][0]["partitions"]
        return [p["replicaNodes"] for p in found if p["partitionIndex"] == 1] == [[3]] or None

    script.until(arrived, "the move to end")
    mover.listed("none any more", None)
