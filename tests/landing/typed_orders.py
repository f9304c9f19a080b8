"""Orders with a field of each type that JSON has, and what a row of them is in Python."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

KINDS = (
    "id bigint, yes boolean, tiny tinyint, small smallint, whole int, single float, amount double, "
    "price decimal(9, 2), large decimal(38, 10), name string, raw binary, day date, at timestamp, local timestamp_ntz, "
    "customer struct<name: string, age: int>, items array<struct<sku: string, count: int>>, tags map<string, bigint>"
)
FIRST: dict[str, Any] = {
    "yes": True,
    "tiny": -128,
    "small": 32767,
    "whole": -(2**31),
    "single": 0.5,
    "amount": 1e300,
    "price": 1234567.89,
    "large": "1234567890123456789012345678.0123456789",
    "name": "Ångström € 😀",
    "raw": "AAH/",
    "day": "1969-07-20",
    "at": "2026-11-28T23:59:59.123456Z",
    "local": "1500-01-01 00:00:00.000001",
    "customer": {"name": "Ada", "age": 36},
    "items": [{"sku": "a", "count": 1}, {"sku": "b"}],
    "tags": {"x": 2**62},
}
EXPECTED: dict[str, Any] = {
    **FIRST,
    "price": Decimal("1234567.89"),
    "large": Decimal(FIRST["large"]),
    "raw": b"\x00\x01\xff",
    "day": date(1969, 7, 20),
    "at": datetime(2026, 11, 28, 23, 59, 59, 123456, tzinfo=UTC),
    "local": datetime(1500, 1, 1, 0, 0, 0, 1),
    "items": [{"sku": "a", "count": 1}, {"sku": "b", "count": None}],
}
