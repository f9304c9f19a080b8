"""The steps of two runs, side by side."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.differential.normal import Normaliser
from tests.differential.script import Step

MISSING = "<nothing>"


@dataclass(frozen=True)
class Difference:
    """One field that differs."""

    scenario: str
    step: int
    label: str
    api: str
    version: int
    path: str
    kafka: Any
    ours: Any

    def __str__(self) -> str:
        label = f" ({self.label})" if self.label else ""
        where = f"{self.scenario}: step {self.step}{label}: {self.api} v{self.version}: {self.path or 'answer'}"
        return f"{where}\n      kafka: {self.kafka!r}\n      ours:  {self.ours!r}"


def differences(scenario: str, kafka: Sequence[Step], ours: Sequence[Step]) -> list[Difference]:
    """All of them, in order."""
    theirs, mine = Normaliser(), Normaliser()
    found = []
    for index in range(max(len(kafka), len(ours))):
        step = kafka[index] if index < len(kafka) else ours[index]
        left = theirs.normal(kafka[index].answer) if index < len(kafka) else MISSING
        right = mine.normal(ours[index].answer) if index < len(ours) else MISSING
        found += [
            Difference(scenario, index + 1, step.label, step.api, step.version, path, a, b)
            for path, a, b in _fields("", left, right)
        ]
    return found


def _fields(path: str, left: Any, right: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in [*left, *(key for key in right if key not in left)]:
            inner = f"{path}.{key}" if path else key
            yield from _fields(inner, left.get(key, MISSING), right.get(key, MISSING))
    elif isinstance(left, list) and isinstance(right, list):
        named = _by_name(left), _by_name(right)
        if named[0] is not None and named[1] is not None:
            for name in [*named[0], *(name for name in named[1] if name not in named[0])]:
                yield from _fields(f"{path}[{name}]", named[0].get(name, MISSING), named[1].get(name, MISSING))
            return
        for index in range(max(len(left), len(right))):
            a = left[index] if index < len(left) else MISSING
            b = right[index] if index < len(right) else MISSING
            yield from _fields(f"{path}[{index}]", a, b)
    elif left != right or type(left) is not type(right):
        yield path, left, right


def _by_name(items: list[Any]) -> dict[str, Any] | None:
    """Match structures by the field that names them, so that an extra one does not make all of them differ."""
    for key in ("name", "topic", "apiKey", "partitionIndex", "partition", "groupId"):
        names = [item[key] if isinstance(item, dict) and key in item else None for item in items]
        if names and None not in names and len(set(names)) == len(names):
            return {str(name): item for name, item in zip(names, items, strict=True)}
    return None


def matches(pattern: str, text: str) -> bool:
    """Whether a whole text matches a pattern in which only `*` is special."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None
