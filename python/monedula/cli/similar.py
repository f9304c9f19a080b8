"""Names in the cluster that are like one which it does not have: what was probably meant."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from monedula.errors import GroupNotFoundError, UnknownTopicError

_MOST = 3


def with_similar(text: str, error: BaseException, options: Mapping[str, Any]) -> str:
    """Add the names that may have been meant, if the error is that a topic or a group does not exist."""
    name = error.topic if isinstance(error, UnknownTopicError) else getattr(error, "group", None)
    if not isinstance(error, UnknownTopicError | GroupNotFoundError) or not isinstance(name, str):
        return text
    names = similar(name, _names(options, of_groups=isinstance(error, GroupNotFoundError)))
    return f"{text}; did you mean {' or '.join(names)}?" if names else text


def similar(wanted: str, names: Iterable[str]) -> list[str]:
    """Names that are like it, whatever their case, the most similar ones first; none if it is one of them."""
    by_lower: dict[str, list[str]] = {}
    for name in names:
        by_lower.setdefault(name.lower(), []).append(name)
    if wanted in by_lower.get(wanted.lower(), ()):
        return []
    found = get_close_matches(wanted.lower(), by_lower, _MOST)
    return [name for each in found for name in sorted(by_lower[each])][:_MOST]


def _names(options: Mapping[str, Any], *, of_groups: bool) -> list[str]:
    from monedula.cli.completing import PATIENCE_SECONDS, names_in_cluster
    from monedula.cli.settings import admin_settings

    return names_in_cluster(
        options,
        lambda admin: (admin.list_groups if of_groups else admin.list_topics)(timeout=PATIENCE_SECONDS),
        admin_settings,
    )
