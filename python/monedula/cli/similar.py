"""Names in the cluster that are like one which it does not have: what was probably meant."""

import logging
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from monedula.errors import GroupNotFoundError, KafkaError, UnknownTopicError

# The command has failed already: its user waits for nothing but the message.
_PATIENCE_SECONDS = 2.0
_MOST = 3


def with_similar(text: str, error: BaseException, options: Mapping[str, Any]) -> str:
    """What is said of an error; if a topic or a group does not exist, with the names that may have been meant.

    Args:
        text: what is said so far.
        error: the error.
        options: of the command, with those that say where the cluster is.
    """
    name = error.topic if isinstance(error, UnknownTopicError) else getattr(error, "group", None)
    if not isinstance(error, UnknownTopicError | GroupNotFoundError) or not isinstance(name, str):
        return text
    names = similar(name, _names(options, of_groups=isinstance(error, GroupNotFoundError)))
    return f"{text}; did you mean {' or '.join(names)}?" if names else text


def similar(wanted: str, names: Iterable[str]) -> list[str]:
    """Those of the names that are like it, whatever their case, the most similar ones first; none if it is one."""
    by_lower: dict[str, list[str]] = {}
    for name in names:
        by_lower.setdefault(name.lower(), []).append(name)
    if wanted in by_lower.get(wanted.lower(), ()):
        return []
    found = get_close_matches(wanted.lower(), by_lower, _MOST)
    return [name for each in found for name in sorted(by_lower[each])][:_MOST]


def _names(options: Mapping[str, Any], *, of_groups: bool) -> list[str]:
    from monedula.admin import Admin
    from monedula.cli.failures import Failure, UsageError
    from monedula.cli.settings import admin_settings, settings_of

    given = (options.get(name) for name in ("bootstrap_servers", "setting", "settings_file"))
    # The log has nothing to add to the error that there is.
    logging.disable()
    try:
        with Admin(admin_settings(settings_of(*given))) as admin:
            return list((admin.list_groups if of_groups else admin.list_topics)(timeout=_PATIENCE_SECONDS))
    except (KafkaError, Failure, UsageError, OSError):
        return []
    finally:
        logging.disable(logging.NOTSET)
