"""Checks the names of options: misspelled ones are errors, unknown ones are warnings."""

import logging
from collections.abc import Collection, Mapping

from monedula.errors import ConfigError
from monedula.spark.kafka_settings import PREFIX, client_keys
from monedula.spark.values import edit_distance

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
        distance, nearest = min((edit_distance(name, candidate), candidate) for candidate in known)
        if distance <= min(2, len(nearest) // 4):
            message = f"option '{name}' is not known; did you mean '{known[nearest]}'?"
            raise ConfigError(message, key=name)
        ignored.append(f"{name} (did you mean {PREFIX}{name}?)" if name in client_keys() else name)
    if ignored:
        _LOGGER.warning("options that are not known are ignored: %s", ", ".join(ignored))
