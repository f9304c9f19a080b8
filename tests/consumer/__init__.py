"""The behaviour of both consumers, synchronous and asynchronous, on a real Kafka."""
