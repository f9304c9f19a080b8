"""Properties of a whole group under faults: members in processes of their own, a checker over what they did.

```
make behaviour             # everything on the embedded broker; ON=kafka or ON=both for a real three-node Kafka
python -m pytest tests/groups/behaviour --on kafka -m "slow or not slow" -k leaders
```

A test starts members (`member.py`, through `group.py`) and a writer on a stage (`stage.py`: three nodes of the embedded
broker, or of Kafka), lets things happen, waits until the group has come to rest, and has `checker.py` judge all that
happened. The checker is itself judged, on histories into which each kind of error was planted (`test_checker.py`).
"""
