"""Exceptions of signal handlers, which surface in whatever Python code runs at that moment."""

from types import FrameType, TracebackType


def is_of_signal_handler(error: BaseException, trace: TracebackType | None = None) -> bool:
    """Return true if a signal handler raised the error, below the caller: the interrupted code is not its cause.

    Python calls a handler with the frame that it interrupts. No other function is called with its caller's frame, so
    this identifies handlers, also those that were replaced meanwhile. The handler of Ctrl-C has no frame of its own.

    Args:
        error: the exception.
        trace: its traceback, if it has none itself yet.
    """
    if isinstance(error, KeyboardInterrupt):
        return True
    trace = trace or error.__traceback__
    while trace is not None:
        if _is_handler(trace.tb_frame):
            return True
        trace = trace.tb_next
    return False


def error_to_raise(error: BaseException | None, raised: BaseException) -> BaseException:
    """Choose from an error and one raised after it: the first, unless a signal handler raised the second."""
    return raised if error is None or is_of_signal_handler(raised) else error


def _is_handler(frame: FrameType) -> bool:
    interrupted = frame.f_back
    if interrupted is None:
        return False
    code, values = frame.f_code, frame.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    given = [values.get(name) for name in code.co_varnames[:count]]
    if code.co_flags & _HAS_REST:
        given += values.get(code.co_varnames[count], ())
    return any(value is interrupted for value in given)


_HAS_REST = 0x04
"""The flag of functions with `*args` (`inspect.CO_VARARGS`)."""
