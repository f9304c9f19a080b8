"""Translates Java's regular expressions for topic names to Python; refuses what Python cannot express exactly.

A topic name consists of one or more ASCII letters, digits, `.`, `_` and `-`. The translation is exact for such names
only. So character classes become sets of ASCII characters, and everything about line ends or Unicode can be ignored.
"""

import re
import string
from functools import cache
from typing import NamedTuple, NoReturn

from monedula.errors import ConfigError
from monedula.spark.pattern_classes import cases, class_text, read_class, read_property
from monedula.spark.pattern_tokens import Token, Tokens

_INT_MAX = (1 << 31) - 1
_DIGITS = frozenset(string.digits)
_NAME = frozenset(string.ascii_letters + string.digits)
_ANCHORS = {"A": r"\A", "Z": "$", "z": r"\Z", "b": r"\b", "B": r"\B"}
_LOOKAROUNDS = ("?=", "?!", "?<=", "?<!")


@cache
def topic_pattern(java_pattern: str) -> re.Pattern[str]:
    """The Python pattern that matches the same topic names as Java's `Pattern.compile(java_pattern)`.

    Use it with `search`, not `fullmatch`: Spark's JVM source subscribes to topics whose name has a match anywhere.
    (With its deprecated way of fetching offsets, the whole name has to match.)

    Raises:
        ConfigError: if it is not a regular expression of Java, or contains something that Python lacks or interprets
            differently; the message says what, and where.
    """
    try:
        return re.compile(_Translator(java_pattern).translate(), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise _refusal(java_pattern, f"it cannot be translated: {error}") from None


def _refusal(java_pattern: str, reason: str) -> ConfigError:
    return ConfigError(f"option 'subscribePattern' is '{java_pattern}': {reason}", key="subscribePattern")


class _Piece(NamedTuple):
    """A translated part of the pattern, with its properties."""

    text: str
    width: int | None
    """The number of characters that it matches; `None` if that varies."""
    is_group: bool = False
    is_assertion: bool = False
    may_be_empty: bool = False
    has_assertion: bool = False
    """Whether a part of it depends on the characters around it, as `^` or a lookahead does."""
    has_loop: bool = False
    """Whether it has a repetition of a part that may be empty: Java and Python end such loops differently."""

    def within(self, text: str) -> "_Piece":
        """The same piece as a group with the text `text`."""
        return self._replace(text=text, is_group=True, is_assertion=False)


_NOTHING = _Piece("", 0, is_assertion=True, may_be_empty=True)


def _assertion(text: str) -> _Piece:
    return _Piece(text, 0, is_assertion=True, may_be_empty=True, has_assertion=True)


class _Translator:
    def __init__(self, java_pattern: str) -> None:
        self._pattern = java_pattern
        self._tokens = Tokens(java_pattern, self._refuse_at)
        self._ignore_case = False
        self._in_lookbehind = False
        self._groups = 0
        # Groups that are not closed yet: a reference to such a group has another meaning in Python.
        self._open_groups: list[int] = []
        # Groups that are repeated, or in a lookaround or atomic group: in Python they may capture something else.
        self._unsure_groups: set[int] = set()
        self._names: dict[str, int] = {}
        self._atomic_groups = 0

    def translate(self) -> str:
        piece = self._alternatives()
        if self._tokens.peek() is not None:
            self._refuse("')' closes no group")
        return piece.text

    def _refuse(self, reason: str) -> NoReturn:
        self._tokens.refuse(reason)

    def _refuse_at(self, reason: str, position: int) -> NoReturn:
        raise _refusal(self._pattern, f"{reason} (at character {position + 1})")

    def _alternatives(self) -> _Piece:
        pieces = [self._sequence()]
        while self._tokens.take("|"):
            pieces.append(self._sequence())
        widths = {piece.width for piece in pieces}
        return _Piece(
            "|".join(piece.text for piece in pieces),
            widths.pop() if len(widths) == 1 else None,
            may_be_empty=any(piece.may_be_empty for piece in pieces),
            has_assertion=any(piece.has_assertion for piece in pieces),
            has_loop=any(piece.has_loop for piece in pieces),
        )

    def _sequence(self) -> _Piece:
        pieces: list[_Piece] = []
        while (token := self._tokens.peek()) is not None and not token.is_meta("|)"):
            pieces.append(self._quantified())
        widths = [piece.width for piece in pieces if piece.width is not None]
        return _Piece(
            "".join(piece.text for piece in pieces),
            sum(widths) if len(widths) == len(pieces) else None,
            may_be_empty=all(piece.may_be_empty for piece in pieces),
            has_assertion=any(piece.has_assertion for piece in pieces),
            has_loop=any(piece.has_loop for piece in pieces),
        )

    def _quantified(self) -> _Piece:
        token = self._tokens.next()
        groups_before = self._groups
        piece = self._atom(token)
        position = self._tokens.position
        repetitions = self._repetitions()
        if repetitions is None:
            return piece
        self._unsure_groups.update(range(groups_before + 1, self._groups + 1))
        if piece.is_assertion:
            self._refuse_at("there is nothing to repeat", position)
        if self._in_lookbehind and piece.is_group:
            self._refuse_at("a repeated group in a lookbehind is not supported", position)
        if piece.may_be_empty and piece.has_assertion:
            self._refuse_at("repeating what may be empty and depends on what is around it is not supported", position)
        least, most, count = repetitions
        repeated = piece.within((f"(?:{piece.text})" if piece.is_group else piece.text) + count)._replace(
            width=least * piece.width if piece.width is not None and least == most else None,
            may_be_empty=piece.may_be_empty or least == 0,
            has_loop=piece.has_loop or piece.may_be_empty,
        )
        if self._tokens.take("?"):
            return repeated.within(repeated.text + "?")
        if not self._tokens.take("+"):
            return repeated
        if piece.is_group:
            # In Java each repetition of the group is atomic; elsewhere only all of them together are.
            self._refuse_at("a possessive repetition of a group is not supported", position)
        return self._atomic(repeated)

    def _repetitions(self) -> tuple[int, int | None, str] | None:
        """Take the next quantifier, if there is one: its minimum, its maximum, and its text in Python's syntax."""
        for meta, least, most in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
            if self._tokens.take(meta):
                return least, most, meta
        if not self._tokens.take("{"):
            return None
        least = self._number()
        if not self._tokens.take(","):
            most, text = least, f"{{{least}}}"
        elif self._tokens.at("}"):
            most, text = None, f"{{{least},}}"
        else:
            most = self._number()
            text = f"{{{least},{most}}}"
            if most < least:
                self._refuse(f"{text} has its bounds the wrong way round")
        if not self._tokens.take("}"):
            self._refuse("a repetition is not closed by '}'")
        return least, most, text

    def _number(self) -> int:
        digits = self._tokens.take_while(_DIGITS, 11)
        if not digits or int(digits) > _INT_MAX:
            self._refuse("'{' must be followed by how often to repeat; write '\\{' for the character")
        return int(digits)

    def _atomic(self, piece: _Piece) -> _Piece:
        # Python's own atomic groups and possessive quantifiers have bugs in early releases of 3.11. A lookahead with a
        # reference to its group does the same: a lookahead is not retried either, and the reference takes its match.
        if self._in_lookbehind:
            self._refuse("an atomic group or possessive repetition in a lookbehind is not supported")
        if piece.has_loop:
            self._refuse("repeating what may be empty is not supported in an atomic group or possessive repetition")
        self._atomic_groups += 1
        name = f"a{self._atomic_groups}"
        # Which characters it does not give back depends on what follows, so it counts as an assertion.
        return piece.within(f"(?:(?=(?P<{name}>{piece.text}))(?P={name}))")._replace(has_assertion=True)

    def _atom(self, token: Token) -> _Piece:
        if token.quoted:
            return self._literal(ord(token.char))
        match token.char:
            case "\\":
                return self._escape()
            case "(":
                return self._group()
            case "[":
                return _Piece(class_text(read_class(self._tokens, self._ignore_case)), 1)
            case ".":
                return _Piece(".", 1)
            case "^" | "$":
                return _assertion(token.char)
            case "*" | "+" | "?" | "{":
                self._refuse_at(f"'{token.char}' has nothing before it to repeat", token.position)
        return self._literal(ord(token.char))

    def _literal(self, char: int) -> _Piece:
        return _Piece(class_text(cases([char]) if self._ignore_case else frozenset([char])), 1)

    def _escape(self) -> _Piece:
        tokens = self._tokens
        for anchor, text in _ANCHORS.items():
            if tokens.take(anchor):
                if anchor == "b" and tokens.at("{"):
                    self._refuse("'\\b{g}' is not supported")
                return _assertion(text)
        for letter in "pP":
            if tokens.take(letter):
                return _Piece(class_text(read_property(tokens, letter == "P", self._ignore_case)), 1)
        if tokens.take("k"):
            return self._reference(self._named_group())
        if (token := tokens.peek()) is not None and not token.quoted and token.char in "123456789":
            return self._reference(self._numbered_group())
        found = tokens.escape()
        return self._literal(found) if isinstance(found, int) else _Piece(class_text(found), 1)

    def _numbered_group(self) -> int:
        number = int(self._tokens.next().char)
        # Further digits belong to the number as long as a group with that number exists.
        while (token := self._tokens.peek()) is not None and not token.quoted and token.char in _DIGITS:
            longer = number * 10 + int(token.char)
            if longer > self._groups:
                break
            number = longer
            self._tokens.next()
        return number

    def _named_group(self) -> int:
        name = self._group_name() if self._tokens.take("<") else ""
        if name not in self._names:
            self._refuse("'\\k' must be followed by '<', the name of a group before it, and '>'")
        return self._names[name]

    def _group_name(self) -> str:
        name = self._tokens.take_while(_NAME, 1000)
        if not name or name[0] in _DIGITS or not self._tokens.take(">"):
            self._refuse("a group's name consists of letters and digits, begins with a letter, and ends with '>'")
        return name

    def _reference(self, number: int) -> _Piece:
        if number > self._groups or number in self._open_groups:
            self._refuse(f"a reference to group {number}, which is not complete before it, is not supported")
        if self._in_lookbehind:
            self._refuse("a reference to a group in a lookbehind is not supported")
        if number in self._unsure_groups:
            self._refuse(
                "a reference to a group that is repeated, or in a lookaround or atomic group, is not supported"
            )
        text = f"(?P=g{number})"
        return _Piece(f"(?i:{text})" if self._ignore_case else text, None, is_group=True, may_be_empty=True)

    def _group(self) -> _Piece:
        tokens = self._tokens
        for kind in _LOOKAROUNDS:
            if tokens.take(kind):
                return self._lookaround(kind)
        if tokens.take("?:"):
            piece = self._inside()
            return piece.within(f"(?:{piece.text})")
        if tokens.take("?>"):
            return self._atomic(self._inside(is_unsure=True))
        if tokens.take("?<"):
            return self._capturing(self._group_name())
        if tokens.take("?"):
            return self._flags()
        return self._capturing(None)

    def _capturing(self, name: str | None) -> _Piece:
        self._groups += 1
        number = self._groups
        if name is not None:
            if name in self._names:
                self._refuse(f"there are two groups named '{name}'")
            self._names[name] = number
        self._open_groups.append(number)
        piece = self._inside()
        self._open_groups.remove(number)
        return piece.within(f"(?P<g{number}>{piece.text})")

    def _lookaround(self, kind: str) -> _Piece:
        position = self._tokens.position
        before = self._in_lookbehind
        self._in_lookbehind = before or kind.startswith("?<")
        piece = self._inside(is_unsure=True)
        if self._in_lookbehind and piece.width is None:
            self._refuse_at("a lookbehind of varying length is not supported", position)
        self._in_lookbehind = before
        return _assertion(f"({kind}{piece.text})")._replace(has_loop=piece.has_loop)

    def _flags(self) -> _Piece:
        """`(?i)`, which holds up to the end of the group around it, or `(?i:...)`."""
        before = self._ignore_case
        ignore_case = before
        is_on = True
        while not self._tokens.at(")") and not self._tokens.at(":"):
            token = self._tokens.next()
            if token.is_meta("-") and is_on:
                is_on = False
            elif token.is_meta("i"):
                ignore_case = is_on
            # `d`, `m` and `s` concern line ends, which no topic name has; flags that are off may be turned off again.
            elif not token.is_meta("dms" if is_on else "dmsuxU"):
                self._refuse_at(f"the flag or group '(?{token.char}' is not known, or not supported", token.position)
        self._ignore_case = ignore_case
        if self._tokens.take(")"):
            return _NOTHING
        self._tokens.take(":")
        piece = self._inside()
        self._ignore_case = before
        return piece.within(f"(?:{piece.text})")

    def _inside(self, is_unsure: bool = False) -> _Piece:
        """Read the inside of a group and its closing bracket; flags that are set inside end with the group."""
        before, groups_before = self._ignore_case, self._groups
        piece = self._alternatives()
        if not self._tokens.take(")"):
            self._refuse("'(' is not closed by ')'")
        self._ignore_case = before
        if is_unsure:
            self._unsure_groups.update(range(groups_before + 1, self._groups + 1))
        return piece
