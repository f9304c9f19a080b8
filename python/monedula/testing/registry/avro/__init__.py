"""Avro: what a schema says, and whether one can read what another has written."""

from monedula.testing.registry.avro.parsed import AvroSchema, parse

__all__ = ["AvroSchema", "parse"]
