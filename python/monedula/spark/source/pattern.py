"""Java's regular expressions for topic names: Python's `re`, plus a refusal of all that differs there.

A topic name consists of one or more ASCII letters, digits, `.`, `_` and `-`. For such names, what is taken here means
the same in both: everything about line ends and Unicode can be ignored.
"""

import re
from functools import cache
from typing import NoReturn

from monedula.errors import ConfigError
from monedula.spark.options.values import INT_MAX

_ESCAPE = r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[dDwWsStnrf]|[^a-zA-Z0-9])"
_TOKEN = re.compile(
    rf"""
    \\Q(?P<quoted>.*?)(?:\\E|$)
    | (?P<named>\\p\{{(?:Alpha|Digit|Alnum)\}})
    | (?P<assertion>\\[bBAzZ](?!\{{) | \^ | \$)
    | (?P<open>\((?:\?(?:[:=!] | <[=!] | i: | <[a-zA-Z][a-zA-Z0-9]*>))?(?!\?))
    | (?P<close>\))
    | (?P<either>\|)
    | (?P<repeat>(?:[*+?] | \{{\d{{1,10}}(?:,\d{{0,10}})?\}})\??)
    | (?P<one>{_ESCAPE} | [^\\()\[*+?{{|^$]
        | \[\^?(?:{_ESCAPE} | &(?!&) | ~(?!~) | \|(?!\|) | -(?!-) | [^\\\[\]&~|-])+\])
    """,
    re.VERBOSE | re.DOTALL,
)
_NAMED = {r"\p{Alpha}": "[a-zA-Z]", r"\p{Digit}": "[0-9]", r"\p{Alnum}": "[a-zA-Z0-9]"}
_LOOKAHEADS, _LOOKBEHINDS = ("(?=", "(?!"), ("(?<=", "(?<!")
_IGNORE_CASE = "(?i)"


@cache
def topic_pattern(java_pattern: str) -> re.Pattern[str]:
    """The Python pattern that matches the same topic names as Java's `Pattern.compile(java_pattern)`.

    Use it with `search`, not `fullmatch`: Spark's JVM source subscribes to topics whose name has a match anywhere.
    (With its deprecated way of fetching offsets, the whole name has to match.)
    """
    ignores_case = java_pattern.startswith(_IGNORE_CASE)
    try:
        text = _in_python(java_pattern, len(_IGNORE_CASE) if ignores_case else 0)
        return re.compile(text, re.ASCII | (re.IGNORECASE if ignores_case else 0))
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(
            f"option 'subscribePattern' is '{java_pattern}': Python cannot read it: {error}", key="subscribePattern"
        ) from None


def _in_python(java_pattern: str, start: int) -> str:
    """The pattern from `start` on as Python writes it."""
    parts: list[str] = []
    groups: list[tuple[str, bool]] = []  # how each open group begins, and whether the one around it had an assertion
    has_assertion = can_repeat = False
    of_group = False  # whether the last part was a group with an assertion

    def refuse(reason: str) -> NoReturn:
        where = f"{reason} (at character {start + 1})"
        raise ConfigError(f"option 'subscribePattern' is '{java_pattern}': {where}", key="subscribePattern")

    while start < len(java_pattern):
        token = _TOKEN.match(java_pattern, start)
        if token is None:
            refuse(f"'{java_pattern[start : start + 4]}' is not known, or not the same in Python")
        kind, text = token.lastgroup, token[0]
        if kind == "repeat":
            if not can_repeat:
                refuse(f"'{text}' has nothing before it to repeat, or makes a repetition possessive")
            if of_group:
                refuse("repeating a group with an assertion is not the same in Python")
            if any(opening in _LOOKBEHINDS for opening, _ in groups):
                refuse("a repetition in a lookbehind is not the same in Python")
            if any(int(number) > INT_MAX for number in re.findall(r"\d+", text)):
                refuse("Java repeats nothing so often")
        if kind == "close":
            if not groups:
                refuse("')' closes no group")
            opening, before = groups.pop()
            is_lookaround = opening in (*_LOOKAHEADS, *_LOOKBEHINDS)
            can_repeat, of_group = not is_lookaround, has_assertion
            has_assertion = has_assertion or before or is_lookaround
        else:
            can_repeat, of_group = kind in ("one", "named", "quoted"), False
        if kind == "open":
            groups.append((text, has_assertion))
            has_assertion = False
            text = re.sub(r"^\(\?<(?=[a-zA-Z])", "(?P<", text)
        elif kind == "assertion":
            has_assertion = True
            text = text.replace(r"\z", r"\Z")
        elif kind == "named":
            text = _NAMED[text]
        elif kind == "quoted":
            can_repeat = bool(token["quoted"])
            text = re.escape(token["quoted"])
        parts.append(text)
        start = token.end()
    if groups:
        refuse("'(' is not closed by ')'")
    return "".join(parts)
