"""End of the package when the interpreter exits."""

import threading

from monedula._monedula import shutdown
from monedula.errors import KafkaError
from monedula.producer._send_queue import wait_for_all

_SECONDS_FOR_WAITING_RECORDS = 5.0


def end() -> None:
    """Deliver what still waits, close every client, and end the core's threads before the interpreter ends."""
    try:
        # First: what still waits in Python is to be delivered as well.
        wait_for_all(_SECONDS_FOR_WAITING_RECORDS)
    finally:
        _keep_quiet_about_daemon_threads()
        shutdown()


def _keep_quiet_about_daemon_threads() -> None:
    """Let no daemon thread print how its call ended: it was to run until the interpreter ends."""
    report = threading.excepthook

    def report_others(arguments: threading.ExceptHookArgs) -> None:
        is_daemon = arguments.thread is not None and arguments.thread.daemon
        if not (is_daemon and issubclass(arguments.exc_type, KafkaError)):
            report(arguments)

    threading.excepthook = report_others
