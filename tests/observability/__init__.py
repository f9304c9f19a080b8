"""Metrics for Prometheus, OpenTelemetry, and the metrics that clients push to brokers (KIP-714)."""
