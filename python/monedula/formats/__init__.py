"""Keys and values as typed columns: JSON, Avro and Protobuf, their schemas and the schema registry."""

from typing import TYPE_CHECKING

if not TYPE_CHECKING:  # type checkers would accept any name

    def __getattr__(name: str) -> object:
        """Import `schemas` on first use: it needs pyarrow."""
        if name != "schemas":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
