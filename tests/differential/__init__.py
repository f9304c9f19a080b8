"""The embedded broker against Apache Kafka: the same raw requests to both, and their answers side by side.

A scenario (`scenarios/`) is a function that sends requests through a `Script`; `test_differential.py` runs it on both
brokers and compares every field of every answer. What must differ (ids, ports, times) is made a symbol in order of
appearance by `normal.py`; what may differ stands in `allowed.py` with its reason. Requests go as JSON to a small Rust
program (rust/broker/examples/wire.rs), which makes bytes of them with our codec and owns the embedded broker.
"""
