r"""Parses Java's character classes, `[...]` and `\p{...}`, into sets of ASCII characters."""

import string
from collections.abc import Iterable

from monedula.spark.pattern_tokens import ASCII, Tokens

_LOWER = frozenset(map(ord, string.ascii_lowercase))
_UPPER = frozenset(map(ord, string.ascii_uppercase))
_DIGITS = frozenset(map(ord, string.digits))
_LETTERS = _LOWER | _UPPER
_PUNCTUATION = frozenset(map(ord, string.punctuation))
_CONTROLS = frozenset(range(32)) | {127}

# With `(?i)` the meaning of these classes differs between releases of Java.
_CASED = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "Ll": _LOWER,
    "Lu": _UPPER,
    "IsLl": _LOWER,
    "IsLu": _UPPER,
    "IsLowercase": _LOWER,
    "IsUppercase": _UPPER,
}
_NAMED = {
    **_CASED,
    "ASCII": ASCII,
    "Alpha": _LETTERS,
    "Digit": _DIGITS,
    "Alnum": _LETTERS | _DIGITS,
    "Punct": _PUNCTUATION,
    "Graph": _LETTERS | _DIGITS | _PUNCTUATION,
    "Print": _LETTERS | _DIGITS | _PUNCTUATION | {32},
    "Blank": frozenset(map(ord, " \t")),
    "Cntrl": _CONTROLS,
    "XDigit": frozenset(map(ord, string.hexdigits)),
    "Space": frozenset(map(ord, " \t\n\x0b\f\r")),
    "L": _LETTERS,
    "N": _DIGITS,
    "Nd": _DIGITS,
    "IsL": _LETTERS,
    "IsN": _DIGITS,
    "IsNd": _DIGITS,
    "IsAlphabetic": _LETTERS,
    "IsLetter": _LETTERS,
    "IsDigit": _DIGITS,
}
_NAME = frozenset(string.ascii_letters + string.digits + "_=")


def read_property(tokens: Tokens, negated: bool, ignore_case: bool) -> frozenset[int]:
    r"""Read the characters of `\p{...}`, or with `negated` of `\P{...}`; `\p` or `\P` has been taken already."""
    if tokens.take("{"):
        name = tokens.take_while(_NAME, 100)
        is_closed = tokens.take("}")
    else:
        token = tokens.next()
        name, is_closed = token.char, not token.quoted
    if not is_closed or name not in _NAMED or (ignore_case and name in _CASED):
        tokens.refuse(f"the class '\\{'P' if negated else 'p'}{{{name}}}' is not known, or not supported, here")
    return ASCII - _NAMED[name] if negated else _NAMED[name]


def read_class(tokens: Tokens, ignore_case: bool) -> frozenset[int]:
    """Read the characters of `[...]`; `[` has been taken already."""
    is_negated = tokens.take("^")
    chars = _Class(tokens, ignore_case).items()
    if not tokens.take("]"):
        tokens.refuse("'[' is not closed by ']'")
    return ASCII - chars if is_negated else chars


def cases(chars: Iterable[int]) -> frozenset[int]:
    """`chars`, with each letter in upper and lower case."""
    taken = frozenset(chars)
    return taken | {char ^ 32 for char in taken if char in _LETTERS}


def class_text(chars: frozenset[int]) -> str:
    """`chars` as a class in Python's syntax."""
    if len(chars) == 1:
        return _char_text(next(iter(chars)))
    if chars == ASCII:
        return r"[\x00-\x7f]"
    # Python has no empty class; this one excludes all characters, so it matches none.
    if not chars:
        return r"[^\x00-\U0010ffff]"
    parts = []
    for first in sorted(chars):
        if first - 1 not in chars:
            last = first
            while last + 1 in chars:
                last += 1
            parts.append(_char_text(first) if first == last else f"{_char_text(first)}-{_char_text(last)}")
    return f"[{''.join(parts)}]"


def _char_text(char: int) -> str:
    text = chr(char)
    return (
        text
        if text.isascii() and (text.isalnum() or text == "_")
        else f"\\U{char:08x}"
        if char > 127
        else f"\\x{char:02x}"
    )


class _Class:
    """Parses the inside of a class by the rules of Java's parser; some of its special cases are refused."""

    def __init__(self, tokens: Tokens, ignore_case: bool) -> None:
        self._tokens = tokens
        self._ignore_case = ignore_case

    def items(self, is_operand: bool = False) -> frozenset[int]:
        """Read the characters up to the closing bracket, which is not taken.

        Args:
            is_operand: whether these are the characters after `&&`, without brackets of their own.
        """
        tokens = self._tokens
        chars: frozenset[int] | None = None
        has_intersection = False
        while not (tokens.at("]") and chars is not None):
            if tokens.peek() is None:
                tokens.refuse("'[' is not closed by ']'")
            if tokens.take("&&"):
                if chars is None:
                    tokens.refuse("'&&' has nothing before it")
                chars &= self._operand()
                has_intersection = True
                continue
            if tokens.at("&") and (has_intersection or is_operand):
                tokens.refuse("a '&' next to '&&' is not supported; write '\\&' for the character")
            found = read_class(tokens, self._ignore_case) if tokens.take("[") else self._range()
            chars = found if chars is None else chars | found
        return chars

    def _operand(self) -> frozenset[int]:
        tokens = self._tokens
        chars: frozenset[int] | None = None
        if tokens.at("^"):
            tokens.refuse("'^' after '&&' is not supported; write '&&[^...]', or '\\^' for the character")
        while not tokens.at("]") and not tokens.at("&"):
            found = read_class(tokens, self._ignore_case) if tokens.take("[") else self.items(is_operand=True)
            chars = found if chars is None else chars | found
        if chars is None:
            tokens.refuse("'&&' has nothing after it")
        return chars

    def _range(self) -> frozenset[int]:
        tokens = self._tokens
        first = self._single()
        if isinstance(first, frozenset):
            return first
        if not tokens.at("-") or (after := tokens.peek(1)) is None or after.is_meta("[]"):
            return self._chars(first, first)
        tokens.take("-")
        last = self._single()
        if isinstance(last, frozenset) or last < first:
            tokens.refuse("a range in a class has its ends the wrong way round")
        return self._chars(first, last)

    def _single(self) -> int | frozenset[int]:
        tokens = self._tokens
        if not tokens.take("\\"):
            return ord(tokens.next().char)
        for letter in "pP":
            if tokens.take(letter):
                return read_property(tokens, letter == "P", self._ignore_case)
        is_vertical = tokens.at("v")
        found = tokens.escape()
        if is_vertical and tokens.at("-"):
            tokens.refuse("a range that begins with '\\v' is not supported")
        return found

    def _chars(self, first: int, last: int) -> frozenset[int]:
        chars = frozenset(range(first, min(last, 127) + 1))
        return cases(chars) if self._ignore_case else chars
