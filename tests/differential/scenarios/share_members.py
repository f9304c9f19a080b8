"""Clients that are members of a share group (KIP-932), and helpers for scenarios with them."""

import json
from collections.abc import Sequence
from typing import Any

from tests.differential.batches import batch
from tests.differential.scenarios.produce import LATEST, Producer
from tests.differential.script import SETTLING, Answer, Member, Script

GROUP = 32
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
MEBIBYTE = 1 << 20
UNKNOWN_ID = "u-BKqQ0ARxOYmLxGzsIqPw"
Acknowledged = Sequence[tuple[int, int, list[int]]]


class ShareMember:
    """A client that is a member of a share group, or wants to be."""

    def __init__(self, script: Script, group: str, name: str, *topics: str, version: int = 2) -> None:
        self.script = script
        self.group = group
        self.name = name
        self.id = f"member-{name}"
        self.topics = topics
        self.version = version
        self.epoch = 0
        self.session = 0
        self.assigned: dict[str, set[int]] = {}
        self.connection: Member = script.member(name)
        # The next request waits behind the one before, as on a broker's connection for fetches alone.
        self.fetches: Member = script.member(name)

    def beat(self, label: str = "beats", *, record: bool = True, **more: Any) -> Answer:
        """Send a heartbeat."""
        body = {"groupId": self.group, "memberId": self.id, "memberEpoch": self.epoch, **more}
        send = self.connection.call if record else self.connection.ask
        answer = send("ShareGroupHeartbeat", 1, body, label=f"{self.name} {label}", retry_on=SETTLING[3:])
        if answer.get("errorCode") == 0:
            self.epoch = answer["memberEpoch"]
            if answer.get("assignment") is not None:
                self.assigned = {
                    topic["topicId"]: set(topic["partitions"]) for topic in answer["assignment"]["topicPartitions"]
                }
        return answer

    def join(self, partitions: int | None = None) -> None:
        """Join, and beat until so many partitions are assigned; nothing of it is compared."""
        self.epoch = 0
        self.beat("joins", record=False, subscribedTopicNames=list(self.topics))

        def has_all() -> bool | None:
            self.beat(record=False)
            count = sum(len(own) for own in self.assigned.values())
            return (count == partitions if partitions is not None else count > 0) or None

        self.script.until(has_all, f"{self.name} to have {partitions} partitions")

    def leave(self) -> Answer:
        """Leave the group."""
        self.epoch = -1
        return self.beat("leaves")

    def fetching(
        self,
        acknowledged: Acknowledged = (),
        *,
        topic: str = "",
        partition: int = 0,
        max_records: int = 500,
        epoch: int | None = None,
        wait_ms: int = 0,
        min_bytes: int = 1,
        **more: Any,
    ) -> dict[str, Any]:
        """A ShareFetch, which adds a partition or has acknowledgements of it."""
        asked = [{"topicId": topic, "partitions": [self.partition(acknowledged, partition)]}] if topic else []
        return {
            "groupId": self.group,
            "memberId": self.id,
            "shareSessionEpoch": self.session if epoch is None else epoch,
            "maxWaitMs": wait_ms,
            "minBytes": min_bytes,
            "maxBytes": MEBIBYTE,
            "maxRecords": max_records,
            "batchSize": max_records,
            "topics": asked,
            "forgottenTopicsData": [],
            **more,
        }

    @staticmethod
    def partition(acknowledged: Acknowledged, index: int = 0) -> dict[str, Any]:
        batches = [
            {"firstOffset": first, "lastOffset": last, "acknowledgeTypes": types} for first, last, types in acknowledged
        ]
        return {"partitionIndex": index, "acknowledgementBatches": batches}

    def fetch(self, label: str, *arguments: Any, **more: Any) -> Answer:
        """Fetch at once, and have it compared."""
        body = self.fetching(*arguments, **more)
        answer = self.fetches.call("ShareFetch", self.version, body, label=f"{self.name} {label}", keep=seen)
        self.advance(answer, body)
        return answer

    def take(self, label: str, *arguments: Any, **more: Any) -> Answer:
        """Fetch until something is acquired, and have that compared."""

        def acquired() -> Answer | None:
            body = self.fetching(*arguments, wait_ms=500, **more)
            answer = self.fetches.ask("ShareFetch", self.version, body, retry_on=())
            self.advance(answer, body)
            return answer if any(partition["acquired"] for partition in seen(answer)["partitions"]) else None

        answer = self.script.until(acquired, f"{self.name} to acquire something")
        self.script.record("ShareFetch", taken(answer), self.version, f"{self.name} {label}")
        return answer

    def take_all(self, label: str, count: int, **more: Any) -> None:
        """Fetch until so many are acquired, which is compared as a whole: locks do not all end at once."""
        found: dict[str, int] = {}

        def enough() -> bool | None:
            body = self.fetching(wait_ms=500, **more)
            answer = self.fetches.ask("ShareFetch", self.version, body, retry_on=())
            self.advance(answer, body)
            for partition in seen(answer)["partitions"]:
                found.update(partition["acquired"])
            return len(found) >= count or None

        self.script.until(enough, f"{self.name} to acquire {count}")
        self.script.record("ShareFetch", found, self.version, f"{self.name} {label}")

    def acknowledge(
        self,
        label: str,
        topic: str,
        acknowledged: Acknowledged,
        *,
        partition: int = 0,
        epoch: int | None = None,
        version: int | None = None,
        **more: Any,
    ) -> Answer:
        """Acknowledge by ShareAcknowledge, and have it compared."""
        body = {
            "groupId": self.group,
            "memberId": self.id,
            "shareSessionEpoch": self.session if epoch is None else epoch,
            "topics": [{"topicId": topic, "partitions": [self.partition(acknowledged, partition)]}],
            **more,
        }
        answer = self.fetches.call(
            "ShareAcknowledge", version or self.version, body, label=f"{self.name} {label}", retry_on=()
        )
        self.advance(answer, body)
        return answer

    def advance(self, answer: Answer, body: dict[str, Any]) -> None:
        if answer.get("errorCode") == 0:
            self.session = 0 if body["shareSessionEpoch"] == -1 else body["shareSessionEpoch"] + 1


def seen(answer: Answer) -> Any:
    """What of an answer is compared: offsets one by one, since brokers may join them to ranges in other ways."""
    if "responses" not in answer:
        return answer
    partitions = [
        {
            **{key: value for key, value in partition.items() if key not in ("acquiredRecords", "records")},
            "topicId": topic["topicId"],
            "acquired": {
                str(offset): acquired["deliveryCount"]
                for acquired in partition["acquiredRecords"]
                for offset in range(acquired["firstOffset"], acquired["lastOffset"] + 1)
            },
            "batches": [each["baseOffset"] for each in partition["records"] or []],
        }
        for topic in answer["responses"]
        for partition in topic["partitions"]
    ]
    return {key: value for key, value in answer.items() if key != "responses"} | {"partitions": partitions}


def taken(answer: Answer) -> Any:
    """What was acquired, by partition."""
    return {str(one["partitionIndex"]): (one["acquired"], one["batches"]) for one in seen(answer)["partitions"]}


def configured(script: Script, group: str, **configs: Any) -> None:
    """Set configs of a group, by names with underscores for dots; it begins with the first records."""
    values = {"share.auto.offset.reset": "earliest"} | {
        key.replace("_", "."): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in configs.items()
    }
    changes = [{"name": name, "configOperation": 0, "value": value} for name, value in values.items()]
    asked = {"resources": [{"resourceType": GROUP, "resourceName": group, "configs": changes}]}
    answer = script.admin.ask("IncrementalAlterConfigs", 1, asked)
    assert answer["responses"][0]["errorCode"] == 0, f"{script.cluster.name}: {answer}"

    def known() -> bool | None:
        described = script.admin.ask(
            "DescribeConfigs",
            4,
            {"resources": [{"resourceType": GROUP, "resourceName": group, "configurationKeys": list(values)}]},
        )
        found = {config["name"]: config["value"] for config in described["results"][0]["configs"]}
        return found == values or None

    script.until(known, f"the configs of {group}")


def filled(script: Script, batches: int = 3, partitions: int = 1, stem: str = "topic") -> tuple[str, str]:
    """A topic with batches of two records in each partition; its name and id."""
    topic = script.topic(stem, partitions)
    producer = Producer(script, topic, LATEST)
    for partition in range(partitions):
        for number in range(batches):
            records = (("k", f"{number}a"), ("k", f"{number}b"))
            producer.produce(f"{stem} {partition} {number}", batch(*records), partition=partition)
    return topic, script.topic_id(topic)


def sharing(script: Script, batches: int = 3, version: int = 2, **configs: Any) -> tuple[ShareMember, str, str]:
    """A member of a group with a topic of one partition; the topic's name and id."""
    topic, topic_id = filled(script, batches)
    group = script.name("group")
    configured(script, group, **configs)
    member = ShareMember(script, group, "a", topic, version=version)
    member.join(1)
    return member, topic, topic_id


def offsets(script: Script, group: str, label: str, topics: Any = None, version: int = 1) -> None:
    """Have the group's offsets compared."""
    asked = {"groups": [{"groupId": group, "topics": topics}]}
    script.admin.call("DescribeShareGroupOffsets", version, asked, label=label)


def described(script: Script, group: str, label: str) -> Answer:
    """Have the group compared, without the epochs, which a broker bumps for initializations too."""

    def keep(answer: Answer) -> Any:
        text = json.dumps(answer)
        whole = json.loads(text)
        for found in whole["groups"]:
            found["isAssigned"] = found["groupEpoch"] == found["assignmentEpoch"]
            del found["groupEpoch"], found["assignmentEpoch"]
            for member in found["members"]:
                del member["memberEpoch"]
        return whole

    return script.admin.call("ShareGroupDescribe", 1, {"groupIds": [group]}, label=label, keep=keep)
