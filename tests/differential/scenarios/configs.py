"""DescribeConfigs, IncrementalAlterConfigs and AlterConfigs."""

from typing import Any

from tests.differential.registry import scenario
from tests.differential.script import Answer, Script

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
OF_TOPIC = 1  # the source of a config that is set for a topic
DESCRIBE = range(1, 5)
# Settings that both know and that tests, clients and tools look at.
TOPIC_CONFIGS = (
    "cleanup.policy",
    "compression.type",
    "delete.retention.ms",
    "max.message.bytes",
    "message.timestamp.type",
    "min.insync.replicas",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "unclean.leader.election.enable",
)


def resource(kind: int, name: str, keys: list[str] | None = None) -> dict[str, Any]:
    return {"resourceType": kind, "resourceName": name, "configurationKeys": keys}


@scenario("DescribeConfigs", DESCRIBE)
def of_a_topic(script: Script, version: int) -> None:
    member = script.member()
    topic = script.topic(retention_ms="1000", cleanup_policy="compact")
    asked = {"resources": [resource(TOPIC, topic, list(TOPIC_CONFIGS))]}
    member.call("DescribeConfigs", version, asked)
    member.call("DescribeConfigs", version, {**asked, "includeSynonyms": True}, label="synonyms")
    one = {"resources": [resource(TOPIC, topic, ["retention.ms", "no.such.config"])]}
    member.call("DescribeConfigs", version, one, label="one and a stray")
    empty = {"resources": [resource(TOPIC, topic, [])]}
    member.call("DescribeConfigs", version, empty, label="an empty list")
    every = {"resources": [resource(TOPIC, topic)]}
    member.call("DescribeConfigs", version, every, label="all")


@scenario("DescribeConfigs", (1, 4))
def of_internal_topics(script: Script, version: int) -> None:
    member = script.member()

    def overrides(answer: Answer) -> Any:
        """What differs from the broker's values."""
        return [
            {config["name"]: config["value"] for config in result["configs"] if config["configSource"] == OF_TOPIC}
            for result in answer["results"]
        ]

    for topic in ("__consumer_offsets", "__transaction_state"):
        asked = {"resources": [resource(TOPIC, topic)], "includeSynonyms": True}
        member.call("DescribeConfigs", version, asked, label=topic, keep=overrides)


@scenario("DescribeConfigs", (3, 4))
def with_documentation(script: Script, version: int) -> None:
    member, topic = script.member(), script.topic()

    def documented(answer: Answer) -> Any:
        """Which configs have a documentation; its words are Kafka's own."""
        return [
            {config["name"]: bool(config["documentation"]) for config in result["configs"]}
            for result in answer["results"]
        ]

    asked = {"resources": [resource(TOPIC, topic)], "includeDocumentation": True}
    member.call("DescribeConfigs", version, asked, label="of a topic", keep=documented)
    keys = ["message.max.bytes", "log.retention.ms", "listeners"]
    asked = {"resources": [resource(BROKER, "1", keys)], "includeDocumentation": True}
    member.call("DescribeConfigs", version, asked, label="of a broker", keep=documented)
    asked = {"resources": [resource(GROUP, script.name("group"), ["consumer.session.timeout.ms"])]}
    member.call(
        "DescribeConfigs", version, {**asked, "includeDocumentation": True}, label="of a group", keep=documented
    )


@scenario("DescribeConfigs", DESCRIBE)
def of_others(script: Script, version: int) -> None:
    member = script.member()

    def names_only(answer: Answer) -> Any:
        return [{k: v for k, v in result.items() if k != "configs"} for result in answer.get("results", [answer])]

    for label, asked in (
        ("unknown topic", resource(TOPIC, script.name("missing"))),
        ("invalid topic", resource(TOPIC, "a b")),
        ("empty topic", resource(TOPIC, "")),
        ("broker", resource(BROKER, "1")),
        ("unknown broker", resource(BROKER, "9")),
        ("a broker that is no number", resource(BROKER, "x")),
        ("default broker", resource(BROKER, "")),
        ("logger", resource(LOGGER, "1")),
        ("group", resource(GROUP, script.name("group"))),
        ("no such type", resource(77, "x")),
    ):
        member.call("DescribeConfigs", version, {"resources": [asked]}, label=label, keep=names_only)
    keys = ["group.max.size", "message.max.bytes", "num.partitions", "offsets.topic.num.partitions"]
    member.call("DescribeConfigs", version, {"resources": [resource(BROKER, "1", keys)]}, label="of a broker")
    keys = ["consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"]
    member.call("DescribeConfigs", version, {"resources": [resource(GROUP, "g", keys)]}, label="of a group")
    member.call("DescribeConfigs", version, {"resources": []}, label="none")


@scenario("IncrementalAlterConfigs", (0, 1))
def alter(script: Script, version: int) -> None:
    member = script.member()
    topic = script.topic(retention_ms="1000")

    def change(
        label: str, *ops: tuple[str, int, str | None], kind: int = TOPIC, name: str = topic, **more: Any
    ) -> None:
        changes = [{"name": key, "configOperation": op, "value": value} for key, op, value in ops]
        body = {"resources": [{"resourceType": kind, "resourceName": name, "configs": changes}], **more}
        member.call("IncrementalAlterConfigs", version, body, label=label)

    def look(label: str) -> None:
        """Configs reach the broker after the controller's answer, so the scenario waits for the last one."""
        asked = {"resources": [resource(TOPIC, topic, ["retention.ms", "cleanup.policy", "max.message.bytes"])]}
        member.call("DescribeConfigs", 4, asked, label=label)

    def settled(key: str, value: str) -> None:
        asked = {"resources": [resource(TOPIC, topic, [key])]}

        def there() -> bool | None:
            found = script.admin.ask("DescribeConfigs", 4, asked)["results"][0]["configs"]
            return (bool(found) and found[0]["value"] == value) or None

        script.until(there, f"{key} to be {value}")

    change("set", ("retention.ms", SET, "2000"))
    settled("retention.ms", "2000")
    look("set")
    change("validate only", ("retention.ms", SET, "3000"), validateOnly=True)
    look("not set")
    change("append", ("cleanup.policy", APPEND, "compact"))
    settled("cleanup.policy", "delete,compact")
    change("subtract", ("cleanup.policy", SUBTRACT, "delete"))
    settled("cleanup.policy", "compact")
    look("compact")
    change("delete", ("retention.ms", DELETE, None), ("cleanup.policy", DELETE, None))
    settled("retention.ms", "604800000")
    look("deleted")
    change("delete what is not set", ("retention.ms", DELETE, None))
    change("append to what is no list", ("retention.ms", APPEND, "1"))
    change("bad value", ("retention.ms", SET, "x"))
    change("null", ("retention.ms", SET, None))
    change("unknown", ("no.such.config", SET, "1"))
    change("no such operation", ("retention.ms", 9, "1"))
    change("twice", ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    change("nothing")
    change("unknown topic", ("retention.ms", SET, "1"), name=script.name("missing"))
    change("unknown broker", ("message.max.bytes", SET, "2000000"), kind=BROKER, name="9")
    change("a broker that is no number", ("message.max.bytes", SET, "2000000"), kind=BROKER, name="x")
    change("no such type", ("a", SET, "1"), kind=77, name="x")
    change("bad group config", ("consumer.session.timeout.ms", SET, "x"), kind=GROUP, name=script.name("group"))
    change("unknown group config", ("retention.ms", SET, "1"), kind=GROUP, name=script.name("group"))
    change("group config", ("consumer.session.timeout.ms", SET, "46000"), kind=GROUP, name=script.name("group"))
    change("empty group", ("consumer.session.timeout.ms", SET, "46000"), kind=GROUP, name="")


@scenario("AlterConfigs", (0, 1, 2))
def replace(script: Script, version: int) -> None:
    member = script.member()
    topic = script.topic(retention_ms="1000", cleanup_policy="compact")
    group = script.name("group")

    def change(label: str, *values: tuple[str, str | None], kind: int = TOPIC, name: str = topic, **more: Any) -> None:
        configs = [{"name": key, "value": value} for key, value in values]
        body = {"resources": [{"resourceType": kind, "resourceName": name, "configs": configs}], **more}
        member.call("AlterConfigs", version, body, label=label)

    def look(label: str) -> None:
        asked = {"resources": [resource(TOPIC, topic, ["retention.ms", "cleanup.policy", "max.message.bytes"])]}
        member.call("DescribeConfigs", 4, asked, label=label)

    def settled(key: str, value: str) -> None:
        asked = {"resources": [resource(TOPIC, topic, [key])]}

        def there() -> bool | None:
            found = script.admin.ask("DescribeConfigs", 4, asked)["results"][0]["configs"]
            return (bool(found) and found[0]["value"] == value) or None

        script.until(there, f"{key} to be {value}")

    change("what is not named is taken back", ("max.message.bytes", "5000"))
    settled("retention.ms", "604800000")
    look("replaced")
    change("validate only", ("max.message.bytes", "6000"), validateOnly=True)
    change("bad value", ("max.message.bytes", "x"))
    change("null", ("max.message.bytes", None))
    change("unknown", ("no.such.config", "1"))
    change("twice", ("retention.ms", "1"), ("retention.ms", "2"))
    change("lags that exclude each other", ("min.compaction.lag.ms", "9"), ("max.compaction.lag.ms", "8"))
    change("unknown topic", ("retention.ms", "1"), name=script.name("missing"))
    change("unknown topic and bad value", ("retention.ms", "x"), name=script.name("missing"))
    change("a topic's name that cannot be", ("retention.ms", "1"), name="a b")
    change("empty topic", ("retention.ms", "1"), name="")
    change("all brokers without what must be set", kind=BROKER, name="")
    change("a broker's own that is the cluster's", ("min.insync.replicas", "1"), kind=BROKER, name="1")
    change("fixed", ("num.partitions", "7"), ("log.retention.ms", "1"), kind=BROKER, name="1")
    change("unknown broker", ("message.max.bytes", "2000000"), kind=BROKER, name="9")
    change("a broker that is no number", ("message.max.bytes", "2000000"), kind=BROKER, name="x")
    change("logger", ("root", "INFO"), kind=LOGGER, name="1")
    change("no such type", ("a", "1"), kind=77, name="x")
    change("empty group", ("consumer.session.timeout.ms", "46000"), kind=GROUP, name="")
    change("bad group config", ("consumer.session.timeout.ms", "1"), kind=GROUP, name=group)
    change("group config", ("consumer.session.timeout.ms", "46000"), kind=GROUP, name=group)
    change("group config taken back", kind=GROUP, name=group)
    look("as before")
    member.call("AlterConfigs", version, {"resources": []}, label="none")
    change("nothing")
    settled("max.message.bytes", "1048588")


# Settings that nobody can change here, and that tools look at; their values are each cluster's own.
STATIC_CONFIGS = (
    "advertised.listeners",
    "auto.leader.rebalance.enable",
    "broker.id",
    "broker.rack",
    "controller.listener.names",
    "controller.quorum.voters",
    "group.coordinator.rebalance.protocols",
    "listeners",
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.enable",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.buffer.size",
    "log.cleaner.io.max.bytes.per.second",
    "log.cleaner.max.compaction.lag.ms",
    "log.cleaner.min.cleanable.ratio",
    "log.cleaner.threads",
    "log.dir",
    "log.dirs",
    "log.flush.interval.ms",
    "log.retention.hours",
    "log.retention.minutes",
    "log.roll.hours",
    "log.segment.delete.delay.ms",
    "node.id",
    "num.io.threads",
    "num.network.threads",
    "offsets.commit.timeout.ms",
    "process.roles",
    "replica.lag.time.max.ms",
    "security.inter.broker.protocol",
)
OWN_VALUES = ("advertised.listeners", "broker.rack", "controller.quorum.voters", "listeners", "log.dirs")


@scenario("DescribeConfigs", (4,), nodes=3)
def of_a_broker_that_stand_still(script: Script, version: int) -> None:
    def without_places(answer: Answer) -> Any:
        for result in answer["results"]:
            for config in result["configs"]:
                if config["name"] in OWN_VALUES:
                    config["value"] = config["value"] is not None
                    config["synonyms"] = [{**synonym, "value": None} for synonym in config["synonyms"]]
        return answer

    for node in (1, 3):
        asked = {"resources": [resource(BROKER, str(node), list(STATIC_CONFIGS))], "includeSynonyms": True}
        script.member(node=node).call("DescribeConfigs", version, asked, label=f"node {node}", keep=without_places)
