"""Columns of JSON values, for inputs of `monedula produce` that are text: it reads what `consume --decode` writes."""

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from monedula.cli.sources import Number

Convert = Callable[[Any], Any]

Shape = dict[str, Any] | None
"""The fields that an object has, each with those that it has itself; `None` where any may be there."""


class BadValue(ValueError):
    """A value is none of its column's type; says where, and what is expected."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason = reason
        self.path = path

    def within(self, place: str) -> Self:
        """The same for a value that has this one at a place."""
        behind = self.path if not self.path or self.path.startswith("[") else f".{self.path}"
        return type(self)(self.reason, place + behind)


def convert_to(kind: Any) -> Convert:
    """Make the function from a JSON value to an object that pyarrow takes for a type of Arrow.

    Nothing is rounded, cut or left out: the function raises `BadValue`.
    """
    convert = _convert_to(kind)
    return lambda data: None if data is None else convert(data)


class Nulls(NamedTuple):
    """The fields of a record of Avro whose default is null: one that is not there is as good as one that is null."""

    names: frozenset[str] = frozenset()
    within: "Mapping[str, Nulls]" = MappingProxyType({})
    """The same for records that stand in fields."""


def nulls_of(schema: str) -> Nulls:
    """Find them in a schema, as far as its records stand where they are used, and are not only named there."""
    try:
        return _nulls_of(json.loads(schema))
    except ValueError:
        return Nulls()  # the one word of a schema like `int`


def _nulls_of(schema: Any) -> Nulls:
    match schema:
        case ["null", inner] | [inner, "null"] | {"type": dict() | list() as inner}:
            return _nulls_of(inner)
        case {"type": "record", "fields": list(fields)}:
            return Nulls(
                frozenset(each["name"] for each in fields if "default" in each and each["default"] is None),
                {each["name"]: found for each in fields if any(found := _nulls_of(each["type"]))},
            )
    return Nulls()


def shape_of(data: Any, kind: Any, nulls: Nulls) -> Shape:
    """The fields that a value has, where its type is a struct; those that may as well be null are always there."""
    import pyarrow

    if not isinstance(data, dict) or not pyarrow.types.is_struct(kind) or _is_union(kind):
        return None
    within = nulls.within
    shape = {name: shape_of(each, kind.field(name).type, within.get(name, _NO_NULLS)) for name, each in data.items()}
    return {**dict.fromkeys(nulls.names), **shape}


_NO_NULLS = Nulls()


class Apart(Exception):
    """Two values have other fields, so that one column cannot have both."""


def joined(one: Shape, other: Shape) -> Shape:
    """The fields of both values."""
    if one is None or other is None:
        return one if other is None else other
    if one.keys() != other.keys():
        raise Apart
    return {name: joined(each, other[name]) for name, each in one.items()}


def narrowed(kind: Any, shape: Shape) -> Any:
    """The type without the fields that values of this shape have not: these get the defaults of the schema."""
    import pyarrow

    if shape is None or not pyarrow.types.is_struct(kind):
        return kind
    return pyarrow.struct(
        [each.with_type(narrowed(each.type, shape[each.name])) for each in kind if each.name in shape]
    )


def _is_union(kind: Any) -> bool:
    """Return true if a struct stands for a union of Avro, of whose members all but one are null."""
    names = [each.name for each in kind]
    return len(names) > 1 and names == [f"member{index}" for index in range(len(names))]


def _convert_to(kind: Any) -> Convert:
    from pyarrow import types

    makers: tuple[tuple[Callable[[Any], bool], Callable[[Any], Convert]], ...] = (
        (types.is_struct, _struct),
        (types.is_map, _map),
        (lambda each: types.is_list(each) or types.is_large_list(each), _list),
        (types.is_boolean, lambda _: _boolean),
        (types.is_integer, _integer),
        (types.is_floating, _floating),
        (types.is_decimal, _decimal),
        (lambda each: types.is_string(each) or types.is_large_string(each), lambda _: _text),
        (lambda each: types.is_binary(each) or types.is_large_binary(each), lambda _: _binary),
        (types.is_fixed_size_binary, lambda _: _binary),
        (types.is_duration, _duration),
        (lambda each: types.is_date(each) or types.is_time(each) or types.is_timestamp(each), _time),
    )
    make = next((make for is_kind, make in makers if is_kind(kind)), None)
    return _nothing if make is None else make(kind)


def _nothing(data: Any) -> Any:
    raise BadValue(f"{_shown(data)} cannot be given as JSON; the field can be null")


def _struct(kind: Any) -> Convert:
    converts = {each.name: convert_to(each.type) for each in kind}

    def convert(data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            raise BadValue(f"{_shown(data)} is no object with the fields {', '.join(converts)}")
        row = {}
        for name, each in data.items():
            if name not in converts:
                raise BadValue(f"there is no such field, only {', '.join(converts) or 'an object without any'}", name)
            try:
                row[name] = converts[name](each)
            except BadValue as bad:
                raise bad.within(name) from None
        return row

    return convert


def _list(kind: Any) -> Convert:
    convert_item = convert_to(kind.value_type)

    def convert(data: Any) -> list[Any]:
        if not isinstance(data, list):
            raise BadValue(f"{_shown(data)} is no array")
        items = []
        for index, each in enumerate(data):
            try:
                items.append(convert_item(each))
            except BadValue as bad:
                raise bad.within(f"[{index}]") from None
        return items

    return convert


def _map(kind: Any) -> Convert:
    import pyarrow

    convert_key, convert_item = convert_to(kind.key_type), convert_to(kind.item_type)
    is_text = pyarrow.types.is_string(kind.key_type)

    def convert(data: Any) -> list[tuple[Any, Any]]:
        if not isinstance(data, dict):
            raise BadValue(f"{_shown(data)} is no object, whose names are the keys")
        entries = []
        for name, each in data.items():
            try:
                entries.append((convert_key(name if is_text else _key(name)), convert_item(each)))
            except BadValue as bad:
                raise bad.within(f"[{name}]") from None
        return entries

    return convert


def _key(name: str) -> Any:
    """The key of a map, which is a number or true or false: names in JSON are texts."""
    if name in ("true", "false"):
        return name == "true"
    return int(name) if re.fullmatch(r"-?[0-9]{1,20}", name) else name


def _boolean(data: Any) -> bool:
    if not isinstance(data, bool):
        raise BadValue(f"{_shown(data)} is neither true nor false")
    return data


def _integer(kind: Any) -> Convert:
    is_signed = str(kind).startswith("int")
    first = -(1 << kind.bit_width - 1) if is_signed else 0
    last = first + (1 << kind.bit_width) - 1

    def convert(data: Any) -> int:
        if not isinstance(data, int) or isinstance(data, bool):
            raise BadValue(f"{_shown(data)} is no whole number")
        if not first <= data <= last:
            raise BadValue(f"{data} is not between {first} and {last}")
        return data

    return convert


_BEYOND_FLOAT = float.fromhex("0x1.ffffffp127")
_NAMED = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def _floating(kind: Any) -> Convert:
    # The least number that is rounded to infinity, and the most binary digits of whole numbers.
    beyond, most_digits = (_BEYOND_FLOAT, 24) if kind.bit_width == 32 else (1 << 1024, 53)

    def convert(data: Any) -> float:
        if isinstance(data, str) and data in _NAMED:
            return _NAMED[data]
        if not isinstance(data, int | float) or isinstance(data, bool):
            raise BadValue(f'{_shown(data)} is no number, nor "NaN", "Infinity" or "-Infinity"')
        if abs(data) >= beyond:
            raise BadValue(f"{_shown(data)} is too large for a floating number of {kind.bit_width} bits")
        if isinstance(data, int) and _binary_digits(data) > most_digits:
            raise BadValue(f"{data} has more digits than a floating number holds")
        return float(data)

    return convert


def _binary_digits(number: int) -> int:
    """Number of binary digits without the zeros at the end."""
    return (abs(number) // ((number & -number) or 1)).bit_length()


def _decimal(kind: Any) -> Convert:
    import pyarrow

    def convert(data: Any) -> Decimal:
        try:
            if isinstance(data, bool) or not isinstance(data, int | float | str):
                raise InvalidOperation
            number = Decimal(data.text if isinstance(data, Number) else data)
            if not number.is_finite():
                raise InvalidOperation
        except InvalidOperation:
            raise BadValue(f"{_shown(data)} is no decimal") from None
        try:
            pyarrow.scalar(number, kind)
        except pyarrow.ArrowInvalid:
            raise BadValue(
                f"{_shown(data)} does not fit into {kind.precision} digits, {kind.scale} of them behind the point"
            ) from None
        return number

    return convert


def _text(data: Any) -> str:
    if not isinstance(data, str):
        raise BadValue(f"{_shown(data)} is no text")
    try:
        data.encode()
    except UnicodeEncodeError as error:
        lone = data[error.start].encode("ascii", "backslashreplace").decode()
        raise BadValue(f"{lone} in it is half of a character") from None
    return data


def _binary(data: Any) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise BadValue(f"{_shown(data)} is not base64, as bytes are in JSON") from None


_UNITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_EXAMPLES = {"date": "2026-11-27", "time": "10:00:00", "timestamp": "2026-11-27T10:00:00"}


def _duration(kind: Any) -> Convert:
    digits = _UNITS[kind.unit]

    def convert(data: Any) -> int:
        found = re.fullmatch(r"(-?)([0-9]{1,12})(?:\.([0-9]{1,9}))?s", data) if isinstance(data, str) else None
        if found is None:
            raise BadValue(f'{_shown(data)} is no length of time, as "1.5s"')
        sign, whole, rest = found.group(1), found.group(2), (found.group(3) or "").rstrip("0")
        if len(rest) > digits:
            raise BadValue(f"{data} has more than {digits} digits behind the point")
        return int(f"{sign}{whole}{rest:0<{digits}}")

    return convert


_HELD = {
    "date32[day": range(-719_162, 2_932_897),
    "timestamp[us": range(-62_135_596_800_000_000, 253_402_300_800_000_000),
    "timestamp[ns": range(0),
}
"""The days and microseconds since 1970 that Python has as times: in the years 1 to 9999. It has no nanoseconds."""

_ZEROS = re.compile(r"(\.[0-9]*[1-9])0+(?=Z|[+-]|$)|\.0+(?=Z|[+-]|$)")
"""Zeros at the end of a fraction of a second, and a point that nothing else stands behind."""


def _time(kind: Any) -> Convert:
    import pyarrow

    name = str(kind).partition("[")[0].rstrip("0123456789")
    zone = "Z" if getattr(kind, "tz", None) else ""
    wanted = f'a {name}, as "{_EXAMPLES[name]}{zone}"'
    # Arrow reads no times of day, but those of the first day that it counts from.
    read_as, day = (pyarrow.timestamp(kind.unit), "1970-01-01T") if name == "time" else (kind, "")
    # Where Python has no value for a time, `record.value` has a number, and so has what is written of it. Other numbers
    # might be in any unit.
    held, bits = _HELD.get(str(kind).partition(", tz")[0].rstrip("]")), kind.bit_width

    def convert(data: Any) -> int:
        is_number = isinstance(data, int) and not isinstance(data, bool)
        if held is not None and is_number and data not in held and -(1 << bits - 1) <= data < 1 << bits - 1:
            return int(data)
        if isinstance(data, str):
            # Arrow reads it to the last digit of the unit, and no further, and counts zeros.
            try:
                read: Any = pyarrow.scalar(day + _ZEROS.sub(r"\1", data)).cast(read_as)
            except pyarrow.ArrowInvalid:
                pass
            else:
                value: int = read.value
                return value
        raise BadValue(f"{_shown(data)} is not {wanted}")

    return convert


def _shown(data: Any) -> str:
    match data:
        case dict():
            return "an object"
        case list():
            return "an array"
        case None | bool():
            return {None: "null", True: "true", False: "false"}[data]
        case Number():
            return data.text
    return f"{data!r:.80}"
