"""The intended differences, each with its reason. Each of them must occur."""

from dataclasses import dataclass
from typing import Any

from tests.differential.compare import MISSING, Difference, matches

ANY = object()
TEXT = object()


@dataclass(frozen=True)
class Allowed:
    """Differences of one kind. `*` in a text stands for anything.

    Args:
        scenario: the scenarios that have it.
        api: the APIs whose answers have it.
        path: the fields that differ.
        reason: why the embedded broker's answer differs.
        label: the steps that have it.
        kafka: Kafka's value, if only with that; `TEXT` for whatever text.
        ours: ours, likewise.
    """

    scenario: str
    api: str
    path: str
    reason: str
    label: str = "*"
    kafka: Any = ANY
    ours: Any = ANY

    def covers(self, difference: Difference) -> bool:
        """Whether a difference is of this kind."""
        return (
            matches(self.scenario, difference.scenario)
            and matches(self.api, difference.api)
            and matches(self.path, difference.path)
            and matches(self.label, difference.label)
            and _is(self.kafka, difference.kafka)
            and _is(self.ours, difference.ours)
        )


def _is(allowed: Any, value: Any) -> bool:
    if allowed is TEXT:
        return isinstance(value, str) and value not in ("", MISSING)
    return bool(allowed is ANY or allowed == value)


IN_WORDS = "messages for people are in our words; that there is one, and its code, are compared"
STUMBLES = "Kafka fails with an exception that it did not expect, and says so; ours says what is wrong with the batch"
SEGMENTS = "segments are small by default, because they are in memory and retention drops whole ones"
VOLUME = "what is left on the volume is not looked for, and told as unknown"
FEATURES = "what is not played has no feature either"
STANDS_STILL = "where the nodes listen is said at the start, and told"
LEADERS_STAY = "leaders change when tests say so, and not by themselves"
NO_STREAMS = "Streams groups are not played"
NAMELESS = "Kafka takes a group without a name, and fails with an exception that it did not expect; ours refuses it"
MANDATORY = "RFC 5802 has a server refuse an extension that it does not know and that is mandatory; Kafka skips it"
BEARER_ONLY = "a client that logs in by another scheme than Bearer is told so; Kafka closes without an answer"
# APIs that Kafka lists and the embedded broker does not implement, by their keys, and why.
NOT_PLAYED = {
    "there is no quorum of controllers behind it": (64, 80, 81, 94),
    "only brokers send these, and all nodes are one": (83, 84, 85, 86, 87),
    "streams groups (KIP-1071) are not played": (88, 89, 93),
}

ALLOWED: tuple[Allowed, ...] = (
    Allowed("*", "*", "*rrorMessage", IN_WORDS, kafka=TEXT, ours=TEXT),
    *(
        Allowed("ApiVersions-ranges-*", "ApiVersions", f"apiKeys[{key}]", reason, ours=MISSING)
        for reason, keys in NOT_PLAYED.items()
        for key in keys
    ),
    Allowed("ApiVersions-ranges-*", "ApiVersions", "*Features[streams.version]", FEATURES, ours=MISSING),
    Allowed("ShareFetch-refuses_fetches", "ShareFetch", "*", NAMELESS, "an empty group"),
    Allowed(
        "DescribeConfigs-of_a_topic-*", "DescribeConfigs", "*[segment.bytes].synonyms[*].value", SEGMENTS, "synonyms"
    ),
    Allowed("*-of_a_broker_that_*", "DescribeConfigs", "*[listeners].readOnly", STANDS_STILL, kafka=False, ours=True),
    *(
        Allowed("*-of_a_broker_that_*", "DescribeConfigs", f"*[advertised.listeners].{field}", STANDS_STILL)
        for field in ("configSource", "synonyms[0]", "value")
    ),
    *(
        Allowed("*-of_a_broker_that_*", "DescribeConfigs", f"*[{name}].*value", reason)
        for name, reason in (
            ("auto.leader.rebalance.enable", LEADERS_STAY),
            ("group.coordinator.rebalance.protocols", NO_STREAMS),
        )
    ),
    *(
        Allowed("DescribeLogDirs-*", "DescribeLogDirs", f"results[*].{field}", VOLUME, ours=-1)
        for field in ("totalBytes", "usableBytes")
    ),
    Allowed("*-takes_messages_by_*", "SaslAuthenticate", "errorCode", MANDATORY, "a mandatory extension", 0, 58),
    Allowed("*-takes_messages_by_*", "SaslAuthenticate", "errorCode", BEARER_ONLY, "another scheme", None, 58),
    Allowed("*-takes_messages_by_*", "SaslAuthenticate", "closed", BEARER_ONLY, "another scheme", True, False),
    Allowed("Produce-refuses-*", "Produce", "*.errorCode", STUMBLES, "gzip that is none", -1, 2),
    Allowed("Produce-refuses-*", "Produce", "*.errorCode", STUMBLES, "an unknown codec", -1, 76),
    Allowed("Produce-refuses-*", "Produce", "*.logStartOffset", STUMBLES, "gzip that is none", 0, -1),
    Allowed("Produce-refuses-*", "Produce", "*.logStartOffset", STUMBLES, "an unknown codec", -1, 0),
)
