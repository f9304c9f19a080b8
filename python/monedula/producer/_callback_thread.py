"""The thread that runs a producer's callbacks."""

from contextlib import suppress

from monedula._monedula import CallbackRunner
from monedula._process.threads import start as start_thread


def start(runner: CallbackRunner) -> None:
    """Start the thread. It ends when the producer is gone and all callbacks were run."""
    start_thread(runner.run, _log, name="monedula-callbacks")


def _log(callback: object, error: BaseException) -> None:
    from monedula._logging import error_of_user

    # A logging handler or a `repr` that raises must not end the thread.
    with suppress(BaseException):
        error_of_user("producer", f"a callback raised: {callback!r}{_advice(callback)}", error)


def _advice(callback: object) -> str:
    """Advice for a callback of another client, which takes an error and a message."""
    from inspect import signature

    try:
        signature(callback).bind(None)  # type: ignore[arg-type]
    except TypeError:
        return "; it is called with the future alone, of which exception() and result() have the outcome"
    except ValueError:  # a function of C says nothing of its arguments
        pass
    return ""
