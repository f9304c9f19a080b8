"""Consumer groups through the public API, on the embedded broker or, by `--on`, on a real Kafka."""
