"""`Admin` and `AsyncAdmin`, on the embedded broker and on a real Kafka."""
