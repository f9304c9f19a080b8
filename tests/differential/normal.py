"""Replaces values that must differ between two brokers: ids, ports and times become symbols, in order of appearance.

A symbol is the same wherever its value stands, so that what belongs together is still compared.
"""

import re
from typing import Any

ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
BASE64_ID = re.compile(r"[A-Za-z0-9_-]{22}")
ADDRESS = re.compile(r"(127\.0\.0\.1[:/])\d+")
# Scripts write small timestamps; those of a clock are beyond this.
FIRST_CLOCK_MS = 1_600_000_000_000
IDS = {"topicId": "topic", "clusterId": "cluster", "leaderReplicaId": "replica"}
NUMBERS = {"producerId": "producer", "sessionId": "session", "port": "port"}
SORT_KEYS = (
    "name",
    "topic",
    "topicName",
    "resourceType",
    "resourceName",
    "groupId",
    "group",
    "transactionalId",
    "key",
    "apiKey",
    "topicId",
    "partitionIndex",
    "partitionId",
    "partition",
    "index",
    "entityType",
    "entity",
    "errorCode",
    "instanceId",
    "groupInstanceId",
    "memberId",
    "nodeId",
    "brokerId",
    "producerId",
    "operation",
    "permissionType",
    "mechanism",
)
# The order of these is part of the answer.
ORDERED = {"records", "replicaNodes", "isrNodes", "offlineReplicas", "abortedTransactions", "synonyms"}

# Chosen anew for each answer: Kafka names any node as the controller, because each forwards what is for it.
PICKED = {"controllerId", "finalizedFeaturesEpoch"}
UNORDERED = {"mechanisms", "subscribedTopicNames", "partitions"}


class Normaliser:
    """Makes the answers of one run comparable."""

    def __init__(self) -> None:
        self._symbols: dict[str, dict[Any, str]] = {}
        self._texts: dict[str, str] = {}

    def normal(self, answer: Any) -> Any:
        """Normalize one answer. Call it in the order of the answers."""
        return self._symbolic("", _sorted("", answer, with_ids=False))

    def _symbolic(self, field: str, value: Any) -> Any:
        if isinstance(value, dict):
            named = {k: self._symbolic(k, v) for k, v in value.items() if k != "throttleTimeMs"}
            return {key: _sorted(key, inner, with_ids=True) for key, inner in named.items()}
        if isinstance(value, list):
            return [self._symbolic(field, item) for item in value]
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int):
            return self._number(field, value)
        return self._text(field, value) if isinstance(value, str) else value

    def _number(self, field: str, value: int) -> Any:
        if field in PICKED and value >= 0:
            return "<one>"
        if (field in NUMBERS and value > 0) or (field == "producerId" and value >= 0):
            return self._symbol(NUMBERS[field], value)
        if value >= FIRST_CLOCK_MS and value < 1 << 62:
            return "<time>"
        return value

    def _text(self, field: str, value: str) -> str:
        if field in IDS:
            return value if value in ("", ZERO_ID) else self._symbol(IDS[field], value)
        # What a broker is told to advertise: the real one of the secured cluster is told a name, for its certificates.
        if field == "host" and value == "localhost":
            return "127.0.0.1"
        if field in ("memberId", "leader") and BASE64_ID.fullmatch(value):
            return self._symbol("member", value)
        value = UUID.sub(lambda found: self._symbol("member", found[0]), value)
        for text, symbol in self._texts.items():
            value = value.replace(text, symbol)
        return ADDRESS.sub(r"\1<port>", value)

    def _symbol(self, kind: str, value: Any) -> str:
        known = self._symbols.setdefault(kind, {})
        if value not in known:
            known[value] = f"<{kind} {len(known) + 1}>"
            if isinstance(value, str):
                self._texts[value] = known[value]
        return known[value]


def _sorted(field: str, value: Any, *, with_ids: bool) -> Any:
    """Sort lists of structures by their names: brokers answer from hash tables."""
    if isinstance(value, dict):
        return {key: _sorted(key, inner, with_ids=with_ids) for key, inner in value.items()}
    if not isinstance(value, list):
        return value
    items = [_sorted("", item, with_ids=with_ids) for item in value]
    if field in UNORDERED and not any(isinstance(item, dict) for item in items):
        return sorted(items)
    if field in ORDERED or not all(isinstance(item, dict) for item in items):
        return items
    ids = () if with_ids else ("topicId", "memberId", "producerId")
    return sorted(items, key=lambda item: [str(item.get(key, "")).rjust(12) for key in SORT_KEYS if key not in ids])
