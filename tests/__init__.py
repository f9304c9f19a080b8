"""Tests, by kind. A package, so that `tests.kafka` never shadows the `kafka` module of kafka-python."""
