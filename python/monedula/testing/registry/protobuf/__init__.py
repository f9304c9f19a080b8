"""Protobuf: what a schema says, and whether messages of one can be read with another, by Confluent's rules."""

from monedula.testing.registry.protobuf.parsed import ProtobufSchema, parse

__all__ = ["ProtobufSchema", "parse"]
