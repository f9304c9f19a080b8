r"""A Java regular expression as characters, `\Q...\E` resolved, and the escapes that stand for characters."""

import string
from collections.abc import Callable
from typing import NamedTuple, NoReturn

ASCII = frozenset(range(128))
"""Every character that is told from others here; names of topics have no others."""

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
    """Whether it is between quotes, and so stands for itself."""

    def is_meta(self, chars: str) -> bool:
        """Whether it is one of `chars`, with the meaning that these have outside of quotes."""
        return not self.quoted and self.char in chars


def tokenize(pattern: str) -> list[Token]:
    """The characters of `pattern`; the quotes themselves are gone."""
    tokens: list[Token] = []
    index, quoted = 0, False
    while index < len(pattern):
        pair = pattern[index : index + 2]
        if pair == ("\\E" if quoted else "\\Q"):
            quoted = not quoted
            index += 2
            continue
        # Outside of quotes a backslash keeps the next character from beginning one.
        length = 2 if not quoted and pair[0] == "\\" else 1
        tokens += [Token(char, index + at, quoted) for at, char in enumerate(pair[:length])]
        index += length
    return tokens


class Tokens:
    """The characters, one after the other."""

    def __init__(self, pattern: str, refuse: Callable[[str, int], NoReturn]) -> None:
        self._tokens = tokenize(pattern)
        self._end = len(pattern)
        self._refuse = refuse
        self._index = 0

    @property
    def position(self) -> int:
        """Where the next character is in the pattern."""
        return self._tokens[self._index].position if self._index < len(self._tokens) else self._end

    def refuse(self, reason: str) -> NoReturn:
        """Raises the error that says `reason`, and where it was met."""
        self._refuse(reason, self.position)

    def peek(self, ahead: int = 0) -> Token | None:
        """The next character, or one after it; `None` beyond the end."""
        index = self._index + ahead
        return self._tokens[index] if index < len(self._tokens) else None

    def next(self) -> Token:
        """The next character, which is taken."""
        token = self.peek()
        if token is None:
            self.refuse("it ends in the middle of something")
        self._index += 1
        return token

    def at(self, metas: str) -> bool:
        """Whether the next characters are `metas`, none of them quoted."""
        return all((token := self.peek(ahead)) is not None and token.is_meta(meta) for ahead, meta in enumerate(metas))

    def take(self, metas: str) -> bool:
        """Takes `metas` if they are next."""
        found = self.at(metas)
        self._index += len(metas) if found else 0
        return found

    def take_while(self, chars: frozenset[str], most: int) -> str:
        """Takes up to `most` of `chars`, none of them quoted."""
        taken = ""
        while len(taken) < most and (token := self.peek()) is not None and not token.quoted and token.char in chars:
            taken += self.next().char
        return taken

    def escape(self) -> int | frozenset[int]:
        """The character, or the set of them, that an escape stands for; its backslash has been taken."""
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
