"""The core's log events into the standard library's `logging`, logger `monedula` and its children."""

import logging

_LOGGER = logging.getLogger("monedula")
_LOGGER.addHandler(logging.NullHandler())


def emit(events: list[tuple[int, str, str]], lost: int) -> int:
    """Log events, and return the level below which the core need not keep any.

    Args:
        events: level, part of the client, message.
        lost: how many older events there was no room for.
    """
    if lost:
        _LOGGER.warning("%d older log events were lost: the consumer was not called for a while", lost)
    for level, part, message in events:
        _LOGGER.getChild(part).log(level, "%s", message)
    return min(_LOGGER.getEffectiveLevel(), 255)


def threshold(part: str = "") -> int:
    """The level below which the core, or a part of it, need not keep any event."""
    logger = _LOGGER.getChild(part) if part else _LOGGER
    return min(logger.getEffectiveLevel(), 255)
