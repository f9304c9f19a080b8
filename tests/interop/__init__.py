"""Clients that others wrote, unmodified, against the embedded broker.

```
make interop                               # all of them; a part of `make test` as well
python -m pytest tests/interop --on kafka  # the same on a real Apache Kafka; `--on both` for one after the other
```

A scenario that fails on both is wrong itself; one that fails on the embedded broker only has found a bug in it. KafkaJS
and franz-go come from their registries into `.cache/kafka/`, pinned by `kafkajs/package-lock.json` and `franz/go.sum`;
Java's clients and tools are pinned by `tests/kafka/pom.xml`, Python's clients by `tests/requirements.lock`.
"""
