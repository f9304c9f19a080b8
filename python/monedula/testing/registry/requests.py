"""A request as routes see it: what its path, its query and its body say."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from monedula.testing.registry import names
from monedula.testing.registry.errors import ApiError
from monedula.testing.registry.store import LATEST

_MAX_VERSION = 2**31 - 1
_MAX_DIGITS = 10
"""The most digits of a number in a path: Python refuses to read thousands."""


def is_number(text: str) -> bool:
    """Return true if a part of a path is a number that an id or a version may be."""
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS


@dataclass(slots=True)
class Request:
    """A request whose route was found.

    Attributes:
        context: which `/contexts/NAME` before the path names; all paths behind it mean that context.
        parts: what stands in the path where the route has `*`.
        query: what stands behind the `?`.
        body: the JSON that was sent.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    context: str = names.DEFAULT
    parts: tuple[str, ...] = ()

    def flag(self, name: str) -> bool:
        """Return true if the query says `true`."""
        return self.query.get(name, "").lower() == "true"

    def qualified(self, subject: str) -> str:
        """A subject in the context of the path."""
        context, name = names.split(names.within(self.context, subject))
        return names.joined(context, name)

    @property
    def subject(self) -> str:
        """The subject of the path."""
        return self.qualified(self.parts[0])

    @property
    def scope(self) -> str:
        """Of levels and modes: a subject, `:.context:`, or nothing for all."""
        if self.parts:
            return self.subject
        return "" if self.context == names.DEFAULT else f":{self.context}:"

    @property
    def version(self) -> int:
        """The version of the path; `LATEST` for `latest` and -1."""
        text = self.parts[1]
        if text in ("latest", "-1"):
            return LATEST
        if not is_number(text) or not 0 < int(text) <= _MAX_VERSION:
            allowed = 'Allowed values are between [1, 2^31-1] and the string "latest"'
            raise ApiError(42202, f"The specified version '{text}' is not a valid version id. {allowed}")
        return int(text)

    @property
    def fields(self) -> Mapping[str, Any]:
        """The body, which is an object."""
        if not isinstance(self.body, dict):
            raise ApiError(422, f"the body is a JSON object; given: {json.dumps(self.body)[:200]}")
        return self.body

    def page(self, found: list[Any]) -> list[Any]:
        """The part of a list that `offset` and `limit` ask for."""
        try:
            offset, limit = int(self.query.get("offset") or 0), int(self.query.get("limit") or -1)
        except ValueError:
            raise ApiError(422, "offset and limit are whole numbers") from None
        return found[max(offset, 0) :][: limit if limit >= 0 else None]
