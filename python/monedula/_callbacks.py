"""The thread that runs a producer's callbacks."""

from contextlib import suppress
from threading import Thread

from monedula._monedula import CallbackDesk


def start(desk: CallbackDesk) -> None:
    """Start the thread. It ends when the producer is gone and no callback is left to call."""
    Thread(target=desk.run, args=(_log,), name="monedula-callbacks", daemon=True).start()


def _log(callback: object, error: BaseException) -> None:
    import logging

    # A logging handler or a `repr` that raises must not disturb the thread: the later callbacks have to be called.
    with suppress(BaseException):
        logging.getLogger("monedula.producer").error("a callback raised: %r", callback, exc_info=error)
