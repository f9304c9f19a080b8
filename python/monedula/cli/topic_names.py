"""Names and patterns of topics on the command line: what begins with `^` is a regular expression."""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated

from typer import Argument, Option

from monedula._arguments import is_name
from monedula.admin import Admin
from monedula.cli.completing import complete_topics
from monedula.cli.failures import Failure, UsageError

NAMES_OF_TOPICS = 'expected 1 to 249 of the characters a-z, A-Z, 0-9, ".", "_" and "-"'
_OF_PATTERNS = frozenset("*+?[](){}|^$\\")

PATTERN_HELP = "^REGEX is each topic whose name matches"

Names = Annotated[list[str], Argument(help=f"Names of topics; {PATTERN_HELP}.", autocompletion=complete_topics)]
OnlyTopics = Annotated[
    list[str] | None,
    Option("-t", "--topic", help=f"Only this topic; {PATTERN_HELP}. Repeatable.", autocompletion=complete_topics),
]


def is_pattern(name: str) -> bool:
    """Return true if the name of a topic is a pattern: no topic has `^` in its name."""
    return name.startswith("^")


def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, compiled. It matches a name if it is found in it."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(f"{pattern}: no regular expression: {error}") from None


def check_names(names: Iterable[str]) -> None:
    """Check names and patterns before the cluster is asked."""
    for name in names:
        if is_pattern(name):
            compiled(name)
        else:
            check_name(name)


def check_name(name: str, instead: str = "") -> None:
    """Check the name of a topic.

    Args:
        name: the name.
        instead: what to write if several topics or a pattern are meant, which are not possible here.
    """
    if is_name(name) and name:
        return
    parts = [part.strip() for part in name.split(",")]
    if not instead and len(parts) > 1 and all(part and is_name(part) for part in parts):
        instead = f"; several topics are given one by one: {', '.join(parts)}"
    elif not instead and _OF_PATTERNS.intersection(name):
        instead = f"; a pattern begins with ^: '^{name}'"
    raise UsageError(f"{name!r} is no topic's name: {NAMES_OF_TOPICS}{instead}")


def topics_of(names: Iterable[str], listed: Iterable[str]) -> list[str]:
    """The topics that are named, and those of `listed` that match a pattern, each once."""
    found: dict[str, None] = {}
    known = sorted(listed)
    for name in names:
        if not is_pattern(name):
            found[name] = None
            continue
        pattern = compiled(name)
        matching = [topic for topic in known if pattern.search(topic)]
        if not matching:
            shown = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
            raise Failure(f"no topic matches {name}; there are: {shown or 'none'}")
        found.update(dict.fromkeys(matching))
    return list(found)


def expanded(admin: Admin, names: Iterable[str] | None) -> list[str]:
    """The topics that are named or match a pattern; asks the cluster only if there is a pattern.

    Kafka's own topics match no pattern.
    """
    names = list(names or ())
    check_names(names)
    listed: Mapping[str, object] = admin.list_topics() if any(map(is_pattern, names)) else {}
    return topics_of(names, listed)
