"""Passes the core's log events to the standard library's `logging`: logger `monedula` and its children."""

import logging
from time import monotonic, time

from monedula._process.fork_safety import WRITING
from monedula._process.signals import is_of_signal_handler

_LOGGER = logging.getLogger("monedula")
_LOGGER.addHandler(logging.NullHandler())


Event = tuple[int, str, str, str, float, dict[str, object]]
"""A log event: level, part of the client (the child logger), name, message, time in seconds since 1970, and fields."""

_NO_FIELDS = dict.fromkeys(("client_id", "group", "broker", "topic", "partition", "error_code"))

_PARTS = (
    "config",
    "network",
    "connection",
    "login",
    "tls",
    "metadata",
    "fetch",
    "registry",
    "groups",
    "producer",
    "producer.end",
    "transaction",
    "admin",
    "telemetry",
    "log",
)
"""The child loggers of clients. The embedded broker has its own level: `monedula.broker`."""

FOLLOWED: dict[str, tuple[logging.Logger, tuple[logging.Logger, ...]]] = {
    "": (_LOGGER, tuple(_LOGGER.getChild(part) for part in _PARTS)),
    "broker": (_LOGGER.getChild("broker"), ()),
}
"""The loggers whose lowest level the core follows, by part: one with the levels above it, and its children."""


_ends_at: float | None = None
"""Time after which handlers get nothing more, by `monotonic`; `None` before the interpreter ends."""

_LAST_WORDS = 1.0
"""Seconds for which handlers are called once the interpreter ends."""


def begin_to_end() -> None:
    """Give handlers a last second from now on: the interpreter ends, and must not wait for slow ones."""
    global _ends_at
    _ends_at = monotonic() + _LAST_WORDS


def _is_over() -> bool:
    return _ends_at is not None and monotonic() > _ends_at


def emit(events: list[Event], lost: int, is_ending: bool) -> None:
    """Log events.

    Args:
        events: the events that the core kept.
        lost: the number of older events that the core dropped for lack of room.
        is_ending: whether the interpreter ends, so that nobody hears of failed records otherwise.
    """
    if lost:
        message = f"{lost} older log events were lost: handlers took too long for them"
        events = [(logging.WARNING, "log", "events_lost", message, time(), {**_NO_FIELDS, "repeated": 0}), *events]
    interrupted: BaseException | None = None
    for event in events:
        # Looked at between any two events: a thread that still calls handlers when the interpreter is gone crashes it.
        if not _is_over():
            # Handlers catch their own errors. What a filter raises must not keep other events back.
            try:
                with WRITING:
                    _log(*event)
            except Exception as error:
                if is_of_signal_handler(error):
                    interrupted = interrupted or error
        _, part, name, message, _, _ = event
        if part == "producer.end" and (is_ending or name == "records_lost"):
            _say_if_unheard(part, logging.WARNING, message)
    if interrupted is not None:
        raise interrupted


def _log(level: int, part: str, name: str, message: str, at: float, fields: dict[str, object]) -> None:
    logger = _LOGGER.getChild(part)
    if not logger.isEnabledFor(level):
        return
    extra = {"event": name, **fields}
    record = logger.makeRecord(logger.name, level, __file__, 0, "%s", (message,), None, "emit", extra)
    # The event is older than the record, and not of the thread that passes it on.
    record.relativeCreated -= (record.created - at) * 1000
    record.created, record.msecs = at, float(int(at % 1 * 1000))
    record.threadName = "monedula"
    logger.handle(record)


def warn_last(message: str) -> None:
    """Warn of records that are lost at the end of the interpreter."""
    alert("producer.end", "records_lost", message)


def alert(part: str, event: str, message: str) -> None:
    """Warn of what must be seen, also where no handler is set up."""
    extra = {"event": event, **_NO_FIELDS, "repeated": 0}
    with WRITING:
        _LOGGER.getChild(part).warning("%s", message, extra=extra)
    _say_if_unheard(part, logging.WARNING, message)


def warn(part: str, message: str) -> None:
    """Warn in the name of one part of the client."""
    with WRITING:
        _LOGGER.getChild(part).warning("%s", message)


def error_of_user(part: str, message: str, error: BaseException) -> None:
    """Log an exception that code of the user raised, where no caller sees it."""
    extra = {"event": "callback_failed", **_NO_FIELDS, "repeated": 0}
    with WRITING:
        _LOGGER.getChild(part).error("%s", message, exc_info=error, extra=extra)
    _say_if_unheard(part, logging.ERROR, message, error)


def _say_if_unheard(part: str, level: int, message: str, error: BaseException | None = None) -> None:
    """Write to standard error, as `logging` would do if this library had no NullHandler: what is lost must be seen."""
    logger = _LOGGER.getChild(part)
    if logging.lastResort is None or _is_heard(logger) or not logger.isEnabledFor(level):
        return
    trace = None if error is None else (type(error), error, error.__traceback__)
    record = logger.makeRecord(logger.name, level, "", 0, f"monedula: {message}", (), trace)
    with WRITING:
        logging.lastResort.handle(record)


def _is_heard(logger: logging.Logger | None) -> bool:
    while logger is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False
