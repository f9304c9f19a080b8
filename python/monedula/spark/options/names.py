"""Checks the names of options: refuses those that look misspelled, and warns of others that are not known."""

import logging
from collections.abc import Collection, Mapping

from monedula.spark.options.kafka_settings import PREFIX, client_keys
from monedula.spark.options.values import refused

_LOGGER = logging.getLogger("monedula.spark")


def check_names(options: Mapping[str, str], names: Collection[str], passed_along: Collection[str]) -> None:
    """Refuse names that look like misspelled options, and warn of unknown ones.

    Args:
        options: the given options, names in lower case.
        names: all options, except those that begin with `kafka.`.
        passed_along: names, in lower case, that are ignored without a warning.
    """
    known = {name.lower(): name for name in names}
    ignored = []
    for name in options:
        if name in known or name in passed_along or name.startswith((PREFIX, "_")):
            continue
        distance, nearest = min((_edit_distance(name, candidate), candidate) for candidate in known)
        if distance <= min(2, len(nearest) // 4):
            raise refused(name, f"is not known; did you mean '{known[nearest]}'?")
        ignored.append(f"{name} (did you mean {PREFIX}{name}?)" if name in client_keys() else name)
    if ignored:
        _LOGGER.warning("options that are not known are ignored: %s", ", ".join(ignored))


def _edit_distance(first: str, second: str) -> int:
    """The Levenshtein distance: how many characters must be added, removed or replaced to get from one to the other."""
    row = list(range(len(second) + 1))
    for line, left in enumerate(first, 1):
        above, row = row, [line]
        for column, right in enumerate(second, 1):
            row.append(min(above[column] + 1, row[-1] + 1, above[column - 1] + (left != right)))
    return row[-1]
