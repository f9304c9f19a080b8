"""The thread that runs a producer's callbacks."""

from contextlib import suppress
from threading import Thread

from monedula._monedula import CallbackDesk


def start(desk: CallbackDesk) -> None:
    """Start it. It ends when the producer is gone and nothing is left to be called."""
    Thread(target=desk.run, args=(_log,), name="monedula-callbacks", daemon=True).start()


def _log(callback: object, error: BaseException) -> None:
    import logging

    # A handler or a `repr` that raises must not keep the error from being told at all.
    with suppress(BaseException):
        logging.getLogger("monedula.producer").error("a callback raised: %r", callback, exc_info=error)
