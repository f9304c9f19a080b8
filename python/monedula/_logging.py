"""The core's log events into the standard library's `logging`, logger `monedula` and its children."""

import logging

_LOGGER = logging.getLogger("monedula")
_LOGGER.addHandler(logging.NullHandler())


Event = tuple[int, str, str, float]
"""Level, part of the client, message, when it happened in seconds since 1970."""


def emit(events: list[Event], lost: int) -> int:
    """Log events, and return the level below which the core need not keep any.

    Args:
        events: what happened.
        lost: how many older events there was no room for.
    """
    if lost:
        _LOGGER.warning("%d older log events were lost: the consumer was not called for a while", lost)
    for event in events:
        _log(*event)
    return min(_LOGGER.getEffectiveLevel(), 255)


def _log(level: int, part: str, message: str, at: float) -> None:
    logger = _LOGGER.getChild(part)
    if not logger.isEnabledFor(level):
        return
    record = logger.makeRecord(logger.name, level, __file__, 0, "%s", (message,), None, "emit")
    # It may have been long until someone called who can log.
    record.relativeCreated -= (record.created - at) * 1000
    record.created, record.msecs = at, float(int(at % 1 * 1000))
    logger.handle(record)


def emit_last(events: list[Event], lost: int) -> None:
    """As `emit`, when the interpreter ends."""
    emit(events, lost)
    for _, part, message, _ in events:
        if part == "producer.end" and not _is_heard():
            _say(message)


def warn_last(message: str) -> None:
    """Warn of records that are lost as the interpreter ends."""
    _LOGGER.getChild("producer.end").warning("%s", message)
    if not _is_heard():
        _say(message)


def _say(message: str) -> None:
    """On standard error, as `logging` would if this library had no handler: no loss to be quiet about."""
    logger = _LOGGER.getChild("producer.end")
    if logging.lastResort is not None and logger.isEnabledFor(logging.WARNING):
        record = logger.makeRecord(logger.name, logging.WARNING, "", 0, f"monedula: {message}", (), None)
        logging.lastResort.handle(record)


def _is_heard() -> bool:
    logger: logging.Logger | None = _LOGGER.getChild("producer.end")
    while logger is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def threshold(part: str = "") -> int:
    """The level below which the core, or a part of it, need not keep any event."""
    logger = _LOGGER.getChild(part) if part else _LOGGER
    return min(logger.getEffectiveLevel(), 255)
