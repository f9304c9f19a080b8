"""The thread that runs a producer's callbacks."""

from contextlib import suppress
from threading import Thread

from monedula._monedula import CallbackRunner


def start(runner: CallbackRunner) -> None:
    """Start the thread. It ends when the producer is gone and all callbacks were run."""
    Thread(target=runner.run, args=(_log,), name="monedula-callbacks", daemon=True).start()


def _log(callback: object, error: BaseException) -> None:
    import logging

    # A logging handler or a `repr` that raises must not end the thread.
    with suppress(BaseException):
        logging.getLogger("monedula.producer").error("a callback raised: %r", callback, exc_info=error)
