"""Programs that are run with a secret in their settings, and print all that a process can say of itself.

`python -m tests.security.canary KIND FILE`: the settings stand in the file. Nothing of what is printed, logged or
written may have the secret.
"""

import asyncio
import copy
import json
import logging
import pickle
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import monedula

Settings = dict[str, Any]
SECONDS = 60.0


def consumer(settings: Settings, topic: str) -> None:
    """A member of a group reads a record, and leaves it to the next."""
    group = {"group.id": f"of-{topic}", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    with monedula.Consumer({**settings, **group}, [topic]) as made:
        show(made)
        while not made.poll(1.0).num_rows:
            pass
        show(made, made.metrics(), made.health(), made.assignment())


def async_consumer(settings: Settings, topic: str) -> None:
    """Likewise under asyncio, without a group."""

    async def read() -> None:
        async with monedula.AsyncConsumer({**settings, "auto.offset.reset": "earliest"}) as made:
            made.assign(topic)
            while not (await made.poll(timeout=1.0)).num_rows:
                pass
            show(made, made.metrics(), made.health())

    asyncio.run(read())


def producer(settings: Settings, topic: str) -> None:
    """A record is sent."""
    with monedula.Producer(settings) as made:
        made.send(topic, b"x").result(SECONDS)
        show(made, made.metrics(), made.health())


def admin(settings: Settings, topic: str) -> None:
    """A topic is described."""
    with monedula.Admin(settings) as made:
        made.describe_topics(topic)
        show(made, made.metrics())


def read(settings: Settings, topic: str) -> None:
    """All there is of a topic."""
    stream = monedula.read(settings, topic)
    show(stream, stream.metrics())
    show(sum(batch.num_rows for batch in stream))


KINDS: dict[str, Callable[[Settings, str], None]] = {
    "producer": producer,
    "consumer": consumer,
    "async_consumer": async_consumer,
    "admin": admin,
    "read": read,
}


def show(*things: object) -> None:
    """Print what things say of themselves, and try to pickle and copy them."""
    for thing in things:
        print(repr(thing), str(thing), getattr(thing, "__dict__", None))
        for way in (pickle.dumps, copy.copy, copy.deepcopy):
            try:
                print(way(thing))
            except Exception as error:
                print(type(error), error)


def show_error(error: BaseException | None) -> None:
    """Print an error with the locals of our frames: what tools show that show locals. And its pickle."""
    while error is not None:
        show(error, error.args, vars(error))
        for frame in traceback.TracebackException.from_exception(error, capture_locals=True).stack:
            if "monedula/" in frame.filename and "/tests/" not in frame.filename:
                print(frame.filename, frame.lineno, frame.locals)
        error = error.__cause__ or error.__context__


def attempt(does: Callable[[Settings, str], None], settings: Mapping[str, Any], topic: str) -> None:
    """Show the error that there is."""
    try:
        does(dict(settings), topic)
    except (monedula.KafkaError, TypeError) as error:
        show_error(error)
        print("ended with", type(error).__name__)
    else:
        print("ended")


def main(kind: str, file: Path) -> None:
    """Run one kind of client: as it should be, and with each mistake."""
    warnings.simplefilter("always")
    logging.basicConfig(level=1, stream=sys.stderr)
    logging.captureWarnings(True)
    job = json.loads(file.read_text())
    does = KINDS[kind]
    print(monedula.config_keys())
    for name, settings in job["settings"].items():
        print("===", name, flush=True)
        attempt(does, settings, job["topic"])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
