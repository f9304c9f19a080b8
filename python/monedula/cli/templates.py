"""The format string of `monedula consume`: `%k %o %s`, with the letters of kcat."""

import re
import struct
from collections.abc import Callable

from monedula import Record
from monedula.cli.failures import UsageError
from monedula.cli.rendering import Form, raw_bytes, shown

LETTERS = {
    "s": "value",
    "S": "bytes of the value, -1 for null",
    "R": "bytes of the value as a big-endian int32",
    "k": "key",
    "K": "bytes of the key, -1 for null",
    "h": "headers, as name=value,name=value",
    "t": "topic",
    "p": "partition",
    "o": "offset",
    "T": "timestamp in milliseconds since 1970",
    "%": "a percent sign",
}

_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_PARTS = re.compile(r"%(?P<letter>.?)|\\x(?P<hex>[0-9a-fA-F]{2})|\\(?P<escape>.?)|(?P<text>[^%\\]+)", re.DOTALL)

Part = Callable[[Record], bytes]


class Template:
    """A format string, ready to render records.

    A line feed is added, unless the text ends with an escape (a backslash and a letter) or contains `%R`.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts = [(found.lastgroup, found[found.lastgroup or 0]) for found in _PARTS.finditer(text)]
        for kind, content in self._parts:
            if kind == "letter" and content not in LETTERS:
                known = ", ".join(f"%{letter} {meaning}" for letter, meaning in LETTERS.items())
                raise UsageError(f"--format {text}: %{content} is no letter of a format string; these are: {known}")
            if kind == "escape" and content not in _ESCAPES:
                raise UsageError(f"--format {text}: \\{content} is no escape; these are: \\n \\r \\t \\0 \\\\ \\xHH")

    @property
    def letters(self) -> set[str]:
        """The letters that occur."""
        return {content for kind, content in self._parts if kind == "letter"}

    def renderer(
        self, key_form: Form, value_form: Form, null: bytes, *, for_terminal: bool
    ) -> Callable[[Record], bytes]:
        """A function that renders a record."""
        parts = [
            _part(kind, content, _Bytes(key_form, value_form, null, for_terminal)) for kind, content in self._parts
        ]
        if self._parts[-1][0] not in ("escape", "hex") and "R" not in self.letters:
            parts.append(lambda _: b"\n")
        return lambda record: b"".join([part(record) for part in parts])


class _Bytes:
    def __init__(self, key_form: Form, value_form: Form, null: bytes, for_terminal: bool) -> None:
        self._key_form, self._value_form, self._null = key_form, value_form, null
        self._for_terminal = for_terminal

    def key(self, record: Record) -> bytes:
        return self._rendered(record.key, self._key_form)

    def value(self, record: Record) -> bytes:
        return self._rendered(record.value, self._value_form)

    def headers(self, record: Record) -> bytes:
        pairs = ((name.encode(), self._rendered(value, Form.auto)) for name, value in record.headers or ())
        return b",".join(b"%s=%s" % pair for pair in pairs)

    def _rendered(self, data: bytes | None, form: Form) -> bytes:
        if data is None:
            return self._null
        return shown(data, form).encode(errors="replace") if self._for_terminal else raw_bytes(data, form)


def _part(kind: str | None, content: str, rendered: _Bytes) -> Part:
    if kind == "letter":
        return _of_letter(content, rendered)
    if kind == "hex":
        fixed = bytes.fromhex(content)
    elif kind == "escape":
        fixed = _ESCAPES[content]
    else:
        fixed = content.encode(errors="surrogateescape")
    return lambda _: fixed


def _of_letter(letter: str, rendered: _Bytes) -> Part:
    parts: dict[str, Part] = {
        "s": rendered.value,
        "S": lambda record: b"%d" % _length(record.value),
        "R": lambda record: struct.pack(">i", _length(record.value)),
        "k": rendered.key,
        "K": lambda record: b"%d" % _length(record.key),
        "h": rendered.headers,
        "t": lambda record: (record.topic or "").encode(),
        "p": lambda record: b"%d" % (record.partition or 0),
        "o": lambda record: b"%d" % (record.offset or 0),
        "T": lambda record: b"%d" % (-1 if record.timestamp is None else record.timestamp),
        "%": lambda _: b"%",
    }
    return parts[letter]


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)
