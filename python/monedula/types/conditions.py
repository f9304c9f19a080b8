"""`Where`, a condition on records."""

from typing import Any

Leaf = tuple[str, str, object] | tuple[str, str]
"""A column, an operator and a value, which `is null` and `is not null` have none of."""

Where = Leaf | list[Leaf] | list[list[Leaf]] | Any
"""A condition: tuples of a column, an operator and a value, or an expression of pyarrow or polars."""
