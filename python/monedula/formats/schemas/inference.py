"""Inference of a schema from JSON texts, by the rules of Spark's `schema_of_json` and `spark.read.json`.

While types are merged, they are a word of `boolean`, `bigint`, `double`, `string` or `null`, or one of the classes
here. Integers beyond 64 bits are decimals; two types without a common one become string.
"""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from monedula._reprs import counted
from monedula.errors import NoSchemaError
from monedula.formats.schemas.ddl import MAX_DEPTH

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_PRECISION = 38


class _Decimal(NamedTuple):
    precision: int
    scale: int


class _List(NamedTuple):
    element: "_Type"


@dataclass(frozen=True)
class _Struct:
    fields: "dict[str, _Type]"


_Type = str | _Decimal | _List | _Struct

_BIGINT = _Decimal(20, 0)


class _Number(str):
    """Text of a number."""


class _NotFinite(str):
    """NaN or an infinity."""


class Inference:
    """Infers a schema from JSON texts, one by one.

    Args:
        primitives_as_string: whether numbers and booleans are strings.
        prefers_decimal: whether numbers with a fraction, and texts that are numbers, are decimals if 38 digits hold
            them.

    Attributes:
        records: number of texts so far.
        bad: number of texts that are no JSON objects. They do not change the schema.
    """

    def __init__(self, *, primitives_as_string: bool = False, prefers_decimal: bool = False) -> None:
        self._primitives_as_string = primitives_as_string
        self._prefers_decimal = prefers_decimal
        self._type: _Type = "null"
        self.records = 0
        self.bad = 0

    def add(self, text: bytes | str) -> str | None:
        """Add the text of one record.

        Returns:
            the reason why the text is no JSON object, or `None`.
        """
        self.records += 1
        reason = self._add(text)
        self.bad += reason is not None
        return reason

    def _add(self, text: bytes | str) -> str | None:
        try:
            decoded = text.decode("utf-8") if isinstance(text, bytes) else text
            if not decoded.strip(" \t\r\n"):
                return None
            value = json.loads(
                decoded, parse_int=_Number, parse_float=_Number, parse_constant=_NotFinite, object_pairs_hook=_Pairs
            )
        except RecursionError:
            return "the value is nested too deep"
        except ValueError as error:
            return str(error)
        elements = [value] if isinstance(value, _Pairs) or not isinstance(value, list) else value
        if not all(isinstance(each, _Pairs) for each in elements):
            return "the value is not a JSON object"
        for each in elements:
            try:
                self._type = _merged(self._type, self._of(each, 0))
            except _TooDeep:
                return f"the value is nested deeper than {MAX_DEPTH}"
        return None

    def schema(self) -> "pa.Schema":
        """Return the schema of the texts so far, its fields sorted by name. Fields without any value are strings.

        Raises:
            NoSchemaError: if no text had a field.
        """
        import pyarrow as pa

        kind: Any = _arrow(self._type) if isinstance(self._type, _Struct) else None
        if kind is None:
            raise NoSchemaError(
                f"no schema can be inferred: of {counted(self.records, 'record')}, none is an object with fields"
            )
        return pa.schema(list(kind))

    def _of(self, value: Any, depth: int) -> _Type:
        if depth > MAX_DEPTH:
            raise _TooDeep
        if isinstance(value, _Pairs):
            fields: dict[str, _Type] = {}
            for name, each in value:
                found = self._of(each, depth + 1)
                fields[name] = _merged(fields[name], found) if name in fields else found
            return _Struct(fields)
        if isinstance(value, list):
            element: _Type = "null"
            for each in value:
                element = _merged(element, self._of(each, depth + 1))
            return _List(element)
        if value is None:
            return "null"
        if isinstance(value, _Number | _NotFinite | bool):
            return "string" if self._primitives_as_string else self._primitive(value)
        if not value:
            return "null"
        return (self._prefers_decimal and _decimal_of_text(value)) or "string"

    def _primitive(self, value: Any) -> _Type:
        if isinstance(value, bool):
            return "boolean"
        if isinstance(value, _NotFinite):
            return "double"
        whole = not any(character in value for character in ".eE")
        if whole and len(value) <= 20 and -(1 << 63) <= int(value) < 1 << 63:
            return "bigint"
        return ((whole or self._prefers_decimal) and _decimal_of_number(value)) or "double"


class _Pairs(list[tuple[str, Any]]):
    """Fields of an object."""


class _TooDeep(Exception):
    pass


def _digits(text: str) -> tuple[int, int] | None:
    """Return the precision and scale of a number, as Java's BigDecimal has them; `None` if it is no number."""
    from decimal import Decimal, InvalidOperation

    if "_" in text or text != text.strip():
        return None
    try:
        _, digits, exponent = Decimal(text).as_tuple()
    except InvalidOperation:
        return None
    return (len(digits), -exponent) if isinstance(exponent, int) else None


def _decimal_of_number(text: str) -> _Decimal | None:
    found = _digits(text)
    if found is None:
        return None
    precision, scale = found
    # Count a negative scale as zeros: 1e3 is 1000.
    precision, scale = (max(precision, scale), scale) if scale >= 0 else (precision - scale, 0)
    return _Decimal(precision, scale) if precision <= _MAX_PRECISION else None


def _decimal_of_text(text: str) -> _Decimal | None:
    """Return the decimal type of a text, as in Spark without its commas; `None` if its scale exceeds its digits."""
    found = _digits(text.replace(",", ""))
    return _Decimal(*found) if found is not None and 0 <= found[1] <= found[0] <= _MAX_PRECISION else None


def _merged(left: _Type, right: _Type) -> _Type:
    if left == right or right == "null":
        return left
    if left == "null":
        return right
    match left, right:
        case _Struct(ours), _Struct(theirs):
            merged = {name: _merged(kind, theirs.get(name, "null")) for name, kind in ours.items()}
            return _Struct({**theirs, **merged})
        case _List(ours), _List(theirs):
            return _List(_merged(ours, theirs))
        case _Decimal(), _Decimal():
            scale = max(left.scale, right.scale)
            whole = max(left.precision - left.scale, right.precision - right.scale)
            return "double" if whole + scale > _MAX_PRECISION else _Decimal(whole + scale, scale)
        case (_Decimal(), "bigint") | ("bigint", _Decimal()):
            return _merged(_BIGINT, left if isinstance(left, _Decimal) else right)
        case (("bigint" | _Decimal()), "double") | ("double", ("bigint" | _Decimal())):
            return "double"
    return "string"


def _arrow(kind: _Type) -> "pa.DataType | None":
    """Convert to the Arrow type; `None` for a struct without fields, which is left out, as in Spark."""
    import pyarrow as pa

    match kind:
        case _Struct(fields):
            found = [(name, _arrow(each)) for name, each in sorted(fields.items(), key=_by_utf16) if name]
            kept = [pa.field(name, each) for name, each in found if each is not None]
            return pa.struct(kept) if kept else None
        case _List(element):
            inner = _arrow(element)
            return None if inner is None else pa.list_(pa.field("element", inner))
        case _Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case "boolean":
            return pa.bool_()
        case "bigint":
            return pa.int64()
        case "double":
            return pa.float64()
    return pa.string()


def _by_utf16(item: "tuple[str, _Type]") -> bytes:
    """Sort key for Java's order of texts."""
    return item[0].encode("utf-16-be", "surrogatepass")
