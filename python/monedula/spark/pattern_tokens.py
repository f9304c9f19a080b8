r"""Splits a Java regular expression into characters, with `\Q...\E` resolved, and parses escapes for characters."""

import string
from collections.abc import Callable
from typing import NamedTuple, NoReturn

ASCII = frozenset(range(128))
"""All characters that classes are computed for; topic names consist of ASCII characters only."""

_HEX = frozenset(string.hexdigits)
_OCTAL = frozenset("01234567")
_SIMPLE = {"a": 0x07, "e": 0x1B, "f": 0x0C, "n": 0x0A, "r": 0x0D, "t": 0x09}
_DIGITS = frozenset(map(ord, string.digits))
_WORD = frozenset(map(ord, string.ascii_letters + string.digits + "_"))
_SETS = {
    "d": _DIGITS,
    "w": _WORD,
    "s": frozenset(map(ord, " \t\n\x0b\f\r")),
    "h": frozenset(map(ord, " \t")),
    "v": frozenset(map(ord, "\n\x0b\f\r")),
}


class Token(NamedTuple):
    """One character of the pattern."""

    char: str
    position: int
    quoted: bool = False
    r"""Whether it is between `\Q` and `\E`, and therefore literal."""

    def is_meta(self, chars: str) -> bool:
        """Whether it is one of `chars` and not quoted, so that it has its special meaning."""
        return not self.quoted and self.char in chars


def tokenize(pattern: str) -> list[Token]:
    r"""The characters of `pattern`, without `\Q` and `\E`."""
    tokens: list[Token] = []
    index, quoted = 0, False
    while index < len(pattern):
        pair = pattern[index : index + 2]
        if pair == ("\\E" if quoted else "\\Q"):
            quoted = not quoted
            index += 2
            continue
        # Outside of quotes a backslash escapes the next character, which is taken with it: `\\Q` begins no quote.
        length = 2 if not quoted and pair[0] == "\\" else 1
        tokens += [Token(char, index + at, quoted) for at, char in enumerate(pair[:length])]
        index += length
    return tokens


class Tokens:
    """A cursor over the characters of a pattern."""

    def __init__(self, pattern: str, refuse: Callable[[str, int], NoReturn]) -> None:
        self._tokens = tokenize(pattern)
        self._end = len(pattern)
        self._refuse = refuse
        self._index = 0

    @property
    def position(self) -> int:
        """The index of the next character in the pattern."""
        return self._tokens[self._index].position if self._index < len(self._tokens) else self._end

    def refuse(self, reason: str) -> NoReturn:
        """Raise the error with `reason` and the current position."""
        self._refuse(reason, self.position)

    def peek(self, ahead: int = 0) -> Token | None:
        """The next character, or the one `ahead` characters after it, without taking it; `None` beyond the end."""
        index = self._index + ahead
        return self._tokens[index] if index < len(self._tokens) else None

    def next(self) -> Token:
        """Take the next character."""
        token = self.peek()
        if token is None:
            self.refuse("it ends in the middle of something")
        self._index += 1
        return token

    def at(self, metas: str) -> bool:
        """Whether the next characters are `metas`, none of them quoted."""
        return all((token := self.peek(ahead)) is not None and token.is_meta(meta) for ahead, meta in enumerate(metas))

    def take(self, metas: str) -> bool:
        """Take the next characters if they are `metas`, none of them quoted; returns whether they are."""
        found = self.at(metas)
        self._index += len(metas) if found else 0
        return found

    def take_while(self, chars: frozenset[str], most: int) -> str:
        """Take up to `most` characters while they are in `chars` and not quoted."""
        taken = ""
        while len(taken) < most and (token := self.peek()) is not None and not token.quoted and token.char in chars:
            taken += self.next().char
        return taken

    def escape(self) -> int | frozenset[int]:
        """Read the character, or the set of characters, of an escape; its backslash has been taken already."""
        token = self.next()
        char = token.char
        if char in _SIMPLE:
            return _SIMPLE[char]
        if char.lower() in _SETS:
            return _SETS[char] if char in _SETS else ASCII - _SETS[char.lower()]
        match char:
            case "0":
                return self._octal()
            case "x" if self.take("{"):
                return self._hex(1, 6, "}")
            case "x":
                return self._hex(2, 2)
            case "u":
                return self._hex(4, 4)
            case "c":
                control = self.next()
                if control.quoted or not control.char.isascii():
                    self.refuse("'\\c' with that character is not supported")
                return ord(control.char) ^ 64
        if char.isascii() and char.isalnum():
            self._refuse(f"the escape '\\{char}' is not known, or not supported, here", token.position - 1)
        return ord(char)

    def _hex(self, least: int, most: int, end: str = "") -> int:
        digits = self.take_while(_HEX, most)
        if len(digits) < least or (end and not self.take(end)) or int(digits, 16) > 0x10FFFF:
            self.refuse("an escape by number is not complete")
        return int(digits, 16)

    def _octal(self) -> int:
        digits = self.take_while(_OCTAL, 2)
        if not digits:
            self.refuse("'\\0' must be followed by an octal number")
        if len(digits) == 2 and digits[0] in "0123":
            digits += self.take_while(_OCTAL, 1)
        return int(digits, 8)
