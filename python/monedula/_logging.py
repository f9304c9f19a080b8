"""Passes the core's log events to the standard library's `logging`: logger `monedula` and its children."""

import logging

_LOGGER = logging.getLogger("monedula")
_LOGGER.addHandler(logging.NullHandler())


Event = tuple[int, str, str, float]
"""A log event: level, part of the client (the child logger), message, and time in seconds since 1970."""


def emit(events: list[Event], lost: int) -> int:
    """Log events, and return the level below which the core need not keep any.

    Args:
        events: the events that the core kept.
        lost: the number of older events that the core dropped for lack of room.
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
    # The event may be old: the core keeps events until a thread with the GIL passes them on.
    record.relativeCreated -= (record.created - at) * 1000
    record.created, record.msecs = at, float(int(at % 1 * 1000))
    logger.handle(record)


def emit_last(events: list[Event], lost: int) -> None:
    """Log events like `emit`, at the end of the interpreter."""
    emit(events, lost)
    for _, part, message, _ in events:
        if part == "producer.end":
            _say_if_unheard(part, logging.WARNING, message)


def warn_last(message: str) -> None:
    """Warn of records that are lost at the end of the interpreter."""
    _LOGGER.getChild("producer.end").warning("%s", message)
    _say_if_unheard("producer.end", logging.WARNING, message)


def warn(part: str, message: str) -> None:
    """Warn in the name of one part of the client."""
    _LOGGER.getChild(part).warning("%s", message)


def error_of_user(part: str, message: str, error: BaseException) -> None:
    """Log an exception that code of the user raised, where no caller sees it."""
    _LOGGER.getChild(part).error("%s", message, exc_info=error)
    _say_if_unheard(part, logging.ERROR, message, error)


def _say_if_unheard(part: str, level: int, message: str, error: BaseException | None = None) -> None:
    """Write to standard error, as `logging` would do if this library had no NullHandler: what is lost must be seen."""
    logger = _LOGGER.getChild(part)
    if logging.lastResort is None or _is_heard(logger) or not logger.isEnabledFor(level):
        return
    trace = None if error is None else (type(error), error, error.__traceback__)
    record = logger.makeRecord(logger.name, level, "", 0, f"monedula: {message}", (), trace)
    logging.lastResort.handle(record)


def _is_heard(logger: logging.Logger | None) -> bool:
    while logger is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def threshold(part: str = "") -> int:
    """The level below which the core, or one part of it, need not keep events."""
    logger = _LOGGER.getChild(part) if part else _LOGGER
    return min(logger.getEffectiveLevel(), 255)
