"""The warning of a member of a group that nobody reads, while another one of the same process is read."""

import asyncio
import gc
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import monedula
import pytest

from tests.groups.ground import Ground

PARTITIONS = 4
SECONDS = 30.0


@pytest.fixture
def settings(ground: Ground) -> dict[str, Any]:
    """Settings of members of a group of the topic `settings["group.id"]`, which has records in each partition."""
    name = ground.topic(PARTITIONS)
    for partition in range(PARTITIONS):
        ground.append(name, range(20), partition)
    return ground.settings(name)


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """The warnings so far."""
    with caplog.at_level(logging.WARNING, "monedula.groups"):
        yield lambda: [
            record.getMessage() for record in caplog.records if getattr(record, "event", "") == "member_unread"
        ]


def member(settings: dict[str, Any]) -> monedula.Consumer:
    return monedula.Consumer(settings, topics=[settings["group.id"]])


def cell(settings: dict[str, Any], kept: list[Any]) -> int:
    """What a cell of a notebook does, in which the consumer is not closed; returns the rows that it read."""
    consumer = member(settings)
    kept.append(consumer)
    return sum(len(batch) for batch in consumer.batches(timeout=5.0))


def test_a_cell_that_is_run_again_is_warned_of_the_member_that_it_left(
    settings: dict[str, Any], ground: Ground, warned: Callable[[], list[str]]
) -> None:
    kept: list[monedula.Consumer] = []
    try:
        assert cell(settings, kept) == 20 * PARTITIONS
        assert warned() == []
        name = settings["group.id"]
        for partition in range(PARTITIONS):
            ground.append(name, ["late"], partition)
        assert cell(settings, kept) == PARTITIONS // 2
        (message,) = warned()
        owned = sorted(f"{topic}-{partition}" for topic, partition in kept[0].assignment())
        assert repr(name) in message
        assert all(each in message for each in owned)
        assert len(owned) == PARTITIONS // 2
    finally:
        for consumer in kept:
            consumer.close()


@pytest.mark.parametrize(("order", "warnings"), [("made, read, made, read", 1), ("made, made, read, read", 0)])
def test_it_is_seen_where_no_logging_is_set_up(settings: dict[str, Any], order: str, warnings: int) -> None:
    program = f"""
import monedula

settings, made = {settings!r}, []
for step in {order!r}.split(", "):
    if step == "made":
        made.append(monedula.Consumer(settings, topics=[settings["group.id"]]))
        continue
    reader = made[0] if made[0].metrics()["records_delivered"] == 0 else made[-1]
    reader.poll(7.0)  # the first member keeps its batch: the second one cannot join
for consumer in made:
    consumer.close()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr.count("monedula: another member of group") == warnings
    assert len(done.stderr.splitlines()) == warnings


def test_members_that_are_polled_in_turn_are_no_concern(
    settings: dict[str, Any], ground: Ground, warned: Callable[[], list[str]]
) -> None:
    with member(settings) as first, member(settings) as second:
        while not (len(first.assignment()) == len(second.assignment()) == PARTITIONS // 2):
            first.poll(0.1)
            second.poll(0.1)
        for partition in range(PARTITIONS):
            ground.append(settings["group.id"], ["late"], partition)
        while not second.poll(0.1):
            first.poll(0.1)
    assert warned() == []


def test_threads_that_each_read_their_member_are_no_concern(
    settings: dict[str, Any], warned: Callable[[], list[str]]
) -> None:
    both, joined = threading.Barrier(2), []

    def work() -> None:
        with member(settings) as consumer:
            both.wait(SECONDS)
            while len(consumer.assignment()) != PARTITIONS // 2:
                consumer.poll(0.1)
            joined.append(len(consumer.assignment()))
            both.wait(SECONDS)
            consumer.poll(0.1)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * SECONDS)
    assert joined == [PARTITIONS // 2] * 2
    assert warned() == []


def test_the_member_of_a_thread_that_has_ended_is_told(
    settings: dict[str, Any], warned: Callable[[], list[str]]
) -> None:
    kept: list[monedula.Consumer] = []
    thread = threading.Thread(target=cell, args=(settings, kept))
    thread.start()
    thread.join(2 * SECONDS)
    try:
        with member(settings) as second:
            while len(second.assignment()) != PARTITIONS // 2:
                second.poll(0.1)
            assert len(warned()) == 1
    finally:
        kept[0].close()


@pytest.mark.parametrize("how", ["closed", "collected"])
def test_a_member_that_is_gone_is_no_concern(
    settings: dict[str, Any], warned: Callable[[], list[str]], how: str
) -> None:
    kept: list[monedula.Consumer] = []
    cell(settings, kept)
    if how == "closed":
        kept[0].close()
    else:
        kept.clear()
        gc.collect()
    with member(settings) as second:
        while len(second.assignment()) != PARTITIONS:
            second.poll(0.1)
        second.poll(0.1)
    assert warned() == []


def test_a_member_of_another_group_is_no_concern(settings: dict[str, Any], warned: Callable[[], list[str]]) -> None:
    kept: list[monedula.Consumer] = []
    try:
        cell(settings, kept)
        topic = settings["group.id"]
        with monedula.Consumer({**settings, "group.id": f"{topic}-other"}, topics=[topic]) as other:
            while not other.poll(1.0):
                pass
    finally:
        kept[0].close()
    assert warned() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_the_member_of_the_parent_is_no_concern_of_a_forked_child(
    settings: dict[str, Any], warned: Callable[[], list[str]]
) -> None:
    kept: list[monedula.Consumer] = []
    cell(settings, kept)
    child = os.fork()
    if child == 0:
        try:
            with member(settings) as own:
                while len(own.assignment()) != PARTITIONS // 2:
                    own.poll(0.1)
                own.poll(0.1)
            os._exit(len(warned()))
        except BaseException:
            os._exit(99)
    try:
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
    finally:
        kept[0].close()


async def test_a_cell_that_awaits_is_warned_too_and_tasks_that_each_read_are_not(
    settings: dict[str, Any], warned: Callable[[], list[str]]
) -> None:
    topic = settings["group.id"]
    kept: list[monedula.AsyncConsumer] = []

    async def read() -> None:
        consumer = monedula.AsyncConsumer(settings, topics=[topic])
        kept.append(consumer)
        async for _ in consumer.batches(timeout=3.0):
            pass

    async def joins(consumer: monedula.AsyncConsumer, partitions: int) -> None:
        while len(consumer.assignment()) != partitions:
            await consumer.poll(0.1)
        await consumer.poll(0.1)

    try:
        async with (
            monedula.AsyncConsumer(settings, topics=[topic]) as first,
            monedula.AsyncConsumer(settings, topics=[topic]) as second,
        ):
            await asyncio.gather(*(asyncio.wait_for(joins(each, PARTITIONS // 2), SECONDS) for each in (first, second)))
        assert warned() == []
        await asyncio.create_task(read())
        assert warned() == []
        await asyncio.create_task(read())
        assert len(warned()) == 1
    finally:
        for consumer in kept:
            await consumer.close()
