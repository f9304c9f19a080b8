"""The log after a compaction that starts by itself."""

import base64

from tests.differential.batches import batch
from tests.differential.registry import scenario
from tests.differential.scenarios.fetch import fetching, want
from tests.differential.scenarios.produce import LATEST, Producer
from tests.differential.script import Script

FETCH = 12
PER_SEGMENT = 10
RECORDS = 200


@scenario("Fetch", (FETCH,))
def what_compaction_leaves(script: Script, version: int) -> None:
    """Of one key's records the last of all closed segments stays, and the segment that is appended to."""

    def one(number: int) -> str:
        return batch(("key", f"{number:04}"), timestamps=[1000 + number])

    size = len(base64.b64decode(one(0)))
    topic = script.topic(
        cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", internal_segment_bytes=str(PER_SEGMENT * size)
    )
    producer = Producer(script, topic, LATEST)
    for number in range(RECORDS):
        producer.member.ask("Produce", LATEST, producer.body(one(number)))
    asked = fetching(version, [(topic, script.topic_id(topic), [want()])])

    def cleaned() -> bool | None:
        answer = script.admin.ask("Fetch", version, asked)
        first = answer["responses"][0]["partitions"][0]["records"][0]["baseOffset"]
        return first == RECORDS - PER_SEGMENT - 1 or None

    script.until(cleaned, "compaction")
    script.member().call("Fetch", version, asked)
