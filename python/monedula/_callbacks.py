"""The thread that runs a producer's callbacks."""

from threading import Thread

from monedula._monedula import CallbackDesk


def start(desk: CallbackDesk) -> None:
    """Start it. It ends when the producer is gone and nothing is left to be called."""
    Thread(target=_run, args=(desk,), name="monedula-callbacks", daemon=True).start()


def _run(desk: CallbackDesk) -> None:
    while due := desk.next():
        # Popped one by one: whatever a callback held is let go of when it was called.
        due.reverse()
        while due:
            callback, future = due.pop()
            try:
                callback(future)
            except Exception:
                _log(callback)
            del callback, future


def _log(callback: object) -> None:
    import logging

    logging.getLogger("monedula.producer").exception("a callback raised: %r", callback)
