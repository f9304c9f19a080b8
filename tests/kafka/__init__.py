"""A real Apache Kafka for tests, demos and benches: one or three KRaft nodes on free loopback ports.

```python
from tests.kafka import KafkaCluster

with KafkaCluster() as kafka:
    kafka.helper.create_topic("orders", partitions=4)
    kafka.helper.produce("orders", [{"key": "1", "value": "hello"}], codec="zstd")
    print(kafka.bootstrap)
```

Needs a JDK 17 (or newer) and, the first time, Maven. `python -m tests.kafka` runs one until Ctrl-C.
"""

from tests.kafka.cluster import KafkaCluster, Node
from tests.kafka.errors import HelperError, KafkaError, KafkaUnavailable, NodeFailed
from tests.kafka.tools import KafkaHelper, Partition

__all__ = [
    "HelperError",
    "KafkaCluster",
    "KafkaError",
    "KafkaHelper",
    "KafkaUnavailable",
    "Node",
    "NodeFailed",
    "Partition",
]
