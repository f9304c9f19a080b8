"""JSON Schema: what a schema says, and whether one takes all that another has taken.

What is compared is what Confluent's registry compares: types, enums, the bounds of numbers and texts, properties with
open and closed content models, items, and combinations. What it does not decide, such as `if` and `patternProperties`,
must not change: the difference is named.
"""

from monedula.testing.registry.json_schema.parsed import JsonSchema, parse

__all__ = ["JsonSchema", "parse"]
