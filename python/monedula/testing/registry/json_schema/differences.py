"""Values that one JSON Schema has taken and another does not: changes are judged as Confluent's registry does."""

import json
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from monedula.testing.registry.json_schema.nodes import UNDECIDED, Node, equal

_MOST = 100


def differences(original: Node, update: Node) -> list[str]:
    """Why a value that is valid for the original may not be valid for the update, each with its place."""
    found = []
    for kind, path, text in _Comparison().compare(original, update, "#"):
        found.append(f"{{errorType:'{kind}', description:'{text}, at path {path}'}}")
        if len(found) == _MOST:
            break
    return found


Difference = tuple[str, str, str]


class _Comparison:
    """Takes a pair that is being compared for equal: a schema within itself adds no difference."""

    def __init__(self) -> None:
        self.within: set[tuple[int, int]] = set()

    def fits(self, original: Node, update: Node, path: str) -> bool:
        return next(iter(self.compare(original, update, path)), None) is None

    def compare(self, original: Node, update: Node, path: str) -> Iterator[Difference]:
        original, update = original.resolved(), update.resolved()
        if original.kind == "false" or update.kind == "any":
            # An empty schema may still have keywords that are not compared.
            yield from _undecided(original, update, path)
            return
        pair = (id(original.value), id(update.value))
        if pair in self.within:
            return
        self.within.add(pair)
        try:
            yield from self._resolved(original, update, path)
        finally:
            self.within.discard(pair)

    def _resolved(self, original: Node, update: Node, path: str) -> Iterator[Difference]:
        undecided = list(_undecided(original, update, path))
        if undecided:
            yield from undecided
            return
        was, now = original.kind, update.kind
        if was != "combined" and now == "combined":
            name, branches = _combined(update)
            is_sum = name != "allOf" or len(branches) == 1
            if is_sum and any(self.fits(original, branch, path) for branch in branches):
                return
        elif was == "combined" and now != "combined":
            _, branches = _combined(original)
            if len(branches) == 1 and self.fits(branches[0], update, path):
                return
        if {was, now} == {"integer", "number"}:
            if now == "integer":
                yield "TYPE_NARROWED", path, "a number may have been written, where an integer is expected"
            yield from _of_numbers(original, update, path)
        elif was != now:
            yield "TYPE_CHANGED", path, f"{was} may have been written, where {now} is expected"
        elif was == "combined":
            yield from self._of_combined(original, update, path)
        elif was == "enum":
            yield from _of_enums(original, update, path)
        elif was == "not":
            negated = original.parts[0][1], update.parts[0][1]
            if not self.fits(negated[1], negated[0], path):
                yield "NOT_TYPE_EXTENDED", f"{path}/not", "more is excluded than before"
        elif was == "string":
            yield from _of_texts(original, update, path)
        elif was in ("integer", "number"):
            yield from _of_numbers(original, update, path)
        elif was == "object":
            yield from self._of_objects(original, update, path)
        elif was == "array":
            yield from self._of_arrays(original, update, path)

    def _of_combined(self, original: Node, update: Node, path: str) -> Iterator[Difference]:
        (was, old), (now, new) = _combined(original), _combined(update)
        are_single = len(old) == 1, len(new) == 1
        allowed = was == now or now == "anyOf" or (are_single[0] and (now == "oneOf" or are_single[1]))
        if not allowed:
            yield "COMBINED_TYPE_CHANGED", path, f"{was} has become {now}"
            return
        old, new = _distinct(old), _distinct(new)
        if now == "allOf" and len(old) < len(new):
            yield "PRODUCT_TYPE_EXTENDED", f"{path}/{now}", "more is to be fulfilled than before"
        if now != "allOf" and len(old) > len(new):
            yield "SUM_TYPE_NARROWED", f"{path}/{now}", "there are fewer alternatives than before"
        fitting = [[self.fits(one, other, path) for other in new] for one in old]
        if _most_pairs(fitting) < min(len(old), len(new)):
            yield (
                "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
                f"{path}/{now}",
                "not each schema of it has one that takes as much",
            )

    # Objects

    def _of_objects(self, original: Node, update: Node, path: str) -> Iterator[Difference]:
        old, new = original.keywords.get("properties", {}), update.keywords.get("properties", {})
        required = set(update.keywords.get("required", ())) - set(original.keywords.get("required", ()))
        for name in [*old, *(name for name in new if name not in old)]:
            where = f"{path}/properties/{name}"
            if name not in new:
                yield from self._removed(original.child(old[name]), update, name, where)
            elif name not in old:
                yield from self._added(original, update, name, where)
            else:
                if name in required and not update.child(new[name]).resolved().has_default:
                    text = f"{name!r} is required now, and may be missing in what was written"
                    yield "REQUIRED_ATTRIBUTE_ADDED", f"{path}/required/{name}", text
                yield from self.compare(original.child(old[name]), update.child(new[name]), where)
        for name in sorted(required - set(old) - set(new)):
            text = f"{name!r} is required now, and may be missing in what was written"
            yield "REQUIRED_ATTRIBUTE_ADDED", f"{path}/required/{name}", text
        yield from self._of_dependencies(original, update, f"{path}/dependencies")
        yield from self._of_additional(original, update, "additionalProperties", "ADDITIONAL_PROPERTIES", path)
        yield from _of_bounds(original, update, path, "maxProperties", "minProperties")

    def _removed(self, old: Node, update: Node, name: str, path: str) -> Iterator[Difference]:
        covered = _covering(update, name)
        if covered is True:
            return
        if covered is None:
            if old.resolved().kind != "false":
                text = f"{name!r} is no property any more, and others are not taken"
                yield "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", path, text
        elif isinstance(covered, Node) and not self.fits(old, covered, path):
            text = f"{name!r} is no property any more, and is not what others may be"
            yield "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path, text

    def _added(self, original: Node, update: Node, name: str, path: str) -> Iterator[Difference]:
        new = update.child(update.keywords["properties"][name]).resolved()
        covered = _covering(original, name)
        if covered is True:
            if new.kind != "any":
                text = f"{name!r} may have been written as anything, since other properties were taken"
                yield "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", path, text
            return
        if isinstance(covered, Node) and not self.fits(covered, new, path):
            text = f"{name!r} may have been written as another property, and is not what those were"
            yield "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path, text
        if name in update.keywords.get("required", ()) and not new.has_default:
            text = f"{name!r} is required, has no default, and is missing in what was written"
            yield "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", path, text

    def _of_dependencies(self, original: Node, update: Node, path: str) -> Iterator[Difference]:
        (old_names, old_schemas), (new_names, new_schemas) = original.dependencies(), update.dependencies()
        for name, needed in new_names.items():
            more = sorted(needed - old_names.get(name, set()))
            if more or name not in old_names:
                yield "DEPENDENCY_ARRAY_EXTENDED", f"{path}/{name}", f"{name!r} needs {', '.join(more)} too now"
        for name, schema in new_schemas.items():
            if name not in old_schemas:
                yield "DEPENDENCY_SCHEMA_ADDED", f"{path}/{name}", f"{name!r} needs a schema now"
            else:
                yield from self.compare(old_schemas[name], schema, f"{path}/{name}")

    def _of_additional(self, original: Node, update: Node, keyword: str, kind: str, path: str) -> Iterator[Difference]:
        old, new = original.keywords.get(keyword, True), update.keywords.get(keyword, True)
        where = f"{path}/{keyword}"
        if old is False or new is True:
            return
        if new is False:
            yield f"{kind}_REMOVED", where, "others were taken, and are not any more"
        elif old is True:
            if update.child(new).resolved().kind != "any":
                yield f"{kind}_NARROWED", where, "others were anything, and have a schema now"
        else:
            yield from self.compare(original.child(old), update.child(new), where)

    # Arrays

    def _of_arrays(self, original: Node, update: Node, path: str) -> Iterator[Difference]:
        old, new = original.keywords.get("items", True), update.keywords.get("items", True)
        if isinstance(old, list) or isinstance(new, list):
            both = [
                {name: each.keywords.get(name) for name in ("items", "additionalItems")} for each in (original, update)
            ]
            if not equal(both[0], both[1]):
                yield "ITEMS_NOT_DECIDED", f"{path}/items", "whether lists of several schemas fit is not decided here"
        elif new is not True:
            yield from self.compare(original.child(old), update.child(new), f"{path}/items")
        if update.keywords.get("uniqueItems") is True and original.keywords.get("uniqueItems") is not True:
            yield "UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems", "items have to differ now"
        yield from _of_bounds(original, update, path, "maxItems", "minItems")


def _combined(node: Node) -> tuple[str, list[Node]]:
    """The parts of a combination; several keywords in one schema are an `allOf` of them."""
    parts = node.parts
    if len(parts) == 1:
        name, branches = parts[0][1]
        return name, branches
    split = []
    for kind, what in parts:
        if kind == "enum":
            split.append(node.child({"enum": what}))
        elif kind == "not":
            split.append(node.child({"not": what.value}))
        elif kind == "combined":
            split.append(node.child({what[0]: [branch.value for branch in what[1]]}))
        else:
            split.append(node.child({**node._typed(), "type": kind}))
    return "allOf", split


def _covering(node: Node, name: str) -> "Node | bool | None":
    """The values of a property that is not named: `True` for anything, `None` for nothing, or a schema."""
    for pattern, schema in node.keywords.get("patternProperties", {}).items():
        try:
            if re.search(pattern, name):
                return node.child(schema)
        except re.error:
            continue
    others = node.keywords.get("additionalProperties", True)
    if others is False:
        return None
    is_open = others is True and not node.keywords.get("patternProperties")
    return True if is_open else None if others is True else node.child(others)


def _undecided(original: Node, update: Node, path: str) -> Iterator[Difference]:
    """Keywords that are not compared, and have changed, or depend on something that may have."""
    for name in UNDECIDED:
        old, new = original.keywords.get(name), update.keywords.get(name)
        if old is None and new is None:
            continue
        # Other differences say more where one side lacks the keyword.
        counts = new is not None or name in ("patternProperties", "prefixItems")
        is_same = equal(old, new)
        if name.startswith("unevaluated") and new is not None:
            is_same = equal(original.value, update.value)
        if is_same and '"$ref"' in json.dumps(new):
            is_same = equal(original.document.root, update.document.root)
        if counts and not is_same:
            yield "NOT_DECIDED", f"{path}/{name}", f"whether a change of {name} fits is not decided here"


def _of_enums(original: Node, update: Node, path: str) -> Iterator[Difference]:
    new = [json.dumps(value, sort_keys=True) for value in update.parts[0][1]]
    gone = [value for value in original.parts[0][1] if json.dumps(value, sort_keys=True) not in new]
    if gone:
        shown = ", ".join(json.dumps(value) for value in gone[:10])
        yield "ENUM_ARRAY_NARROWED", f"{path}/enum", f"{shown} may have been written, and is not taken any more"


def _of_texts(original: Node, update: Node, path: str) -> Iterator[Difference]:
    yield from _of_bounds(original, update, path, "maxLength", "minLength")
    new = update.keywords.get("pattern")
    if new is not None and new != original.keywords.get("pattern"):
        yield "PATTERN_CHANGED", f"{path}/pattern", f"texts have to match {new!r} now"


def _of_numbers(original: Node, update: Node, path: str) -> Iterator[Difference]:
    yield from _of_bounds(original, update, path, "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum")
    old, new = original.keywords.get("multipleOf"), update.keywords.get("multipleOf")
    if new is not None and (old is None or Decimal(str(old)) % Decimal(str(new)) != 0):
        yield "MULTIPLE_OF_CHANGED", f"{path}/multipleOf", f"numbers have to be multiples of {new} now"


def _of_bounds(original: Node, update: Node, path: str, *names: str) -> Iterator[Difference]:
    for name in names:
        old, new = original.bound(name), update.bound(name)
        is_least = "min" in name.lower()
        if new is not None and (old is None or (new > old if is_least else new < old)):
            kind = re.sub("(?=[A-Z])", "_", name).upper()
            change = "ADDED" if old is None else "INCREASED" if is_least else "DECREASED"
            was = "not set" if old is None else old
            yield f"{kind}_{change}", f"{path}/{name}", f"{name} is {new} now, where it was {was}"


def _distinct(nodes: list[Node]) -> list[Node]:
    found: dict[str, Node] = {}
    for node in nodes:
        found.setdefault(json.dumps(node.value, sort_keys=True), node)
    return list(found.values())


def _most_pairs(fits: Sequence[Sequence[bool]]) -> int:
    """The largest number of pairs that fit, none of which is in two pairs.

    Args:
        fits: for each of the left side, whether each of the right side fits.
    """
    taken: dict[int, int] = {}

    def finds(left: int, seen: set[int]) -> bool:
        for right, is_fit in enumerate(fits[left]):
            if is_fit and right not in seen:
                seen.add(right)
                if right not in taken or finds(taken[right], seen):
                    taken[right] = left
                    return True
        return False

    return sum(finds(left, set()) for left in range(len(fits)))
