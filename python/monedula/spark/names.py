"""Names of options: those that are nearly one of ours, and those that are none."""

import logging
from collections.abc import Collection, Mapping

from monedula.errors import ConfigError
from monedula.spark.kafka_settings import PREFIX, client_keys
from monedula.spark.values import edit_distance

_LOGGER = logging.getLogger("monedula.spark")


def check_names(options: Mapping[str, str], names: Collection[str], passed_along: Collection[str]) -> None:
    """Refuses what is nearly an option of ours, and warns of what is none at all.

    Args:
        options: as given, names in lower case.
        names: every option there is, besides those that begin with `kafka.`.
        passed_along: what is no option here and yet no mistake, in lower case.

    Raises:
        ConfigError: if one looks like a misspelling.
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
