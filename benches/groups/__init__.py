"""Rebalances beside Java and confluent-kafka."""
