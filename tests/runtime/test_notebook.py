"""A notebook with the kernel of Jupyter: what its cells show, their interruption, and cells that are run again."""

import asyncio
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from jupyter_core.utils import ensure_async
from monedula.testing import Broker
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

SECONDS = 60


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2}, settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        for partition in range(2):
            broker.append("orders", [("a key", f"<{number}>") for number in range(20)], partition=partition)
        yield broker


class Notebook(NotebookClient):
    """Runs cells in one kernel, and interrupts a cell when it prints `interrupt me`."""

    def process_message(self, message: dict[str, Any], cell: Any, cell_index: int) -> Any:
        """Interrupt the kernel at the sign of the cell."""
        if message["msg_type"] == "stream" and "interrupt me" in message["content"]["text"]:
            assert self.km is not None
            self._interrupting = asyncio.ensure_future(ensure_async(self.km.interrupt_kernel()))
        return super().process_message(message, cell, cell_index)

    def run(self, source: str) -> list[Any]:
        """Run a cell; returns its outputs."""
        cell = nbformat.v4.new_code_cell(source)  # type: ignore[no-untyped-call]
        self.nb.cells.append(cell)
        self.execute_cell(cell, len(self.nb.cells) - 1)
        return list(cell.outputs)


@pytest.fixture
def notebook(broker: Broker) -> Iterator[Notebook]:
    document = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
    notebook = Notebook(document, timeout=SECONDS, interrupt_on_timeout=False)
    with notebook.setup_kernel():
        settings = {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}
        notebook.run(f"import monedula\nsettings = {settings!r}")
        yield notebook


def shown(outputs: list[Any]) -> dict[str, str]:
    """The result of a cell, by MIME type."""
    (result,) = [output for output in outputs if output.output_type == "execute_result"]
    return dict(result.data)


def text(outputs: list[Any], name: str = "stdout") -> str:
    """What a cell wrote."""
    return "".join(output.text for output in outputs if output.output_type == "stream" and output.name == name)


def test_batches_and_tables_are_shown_as_tables(notebook: Notebook) -> None:
    notebook.run("with monedula.read(settings, ('orders', 1)) as stream:\n    batch = next(stream)")
    data = shown(notebook.run("batch"))
    assert data["text/plain"] == "<monedula.Batch of 20 rows: orders-1 0..20>"
    assert "<table><caption>" in data["text/html"]
    assert "&lt;9&gt;" in data["text/html"]
    assert "10 of 20 rows" in data["text/html"]
    data = shown(notebook.run("batch.head(1)"))
    assert data["text/plain"].startswith("<monedula.Table of 1 row: key, value, ")
    assert data["text/html"].count("<tr>") == 2
    data = shown(notebook.run("monedula.read(settings, 'orders')"))
    assert "2 partitions, 0 of 40 offsets" in data["text/plain"]
    assert "<td>orders</td><td>0</td><td>0</td><td>20</td>" in data["text/html"]


@pytest.mark.parametrize(
    "waiting",
    [
        "for batch in consumer.batches():\n    print('interrupt me', flush=True)",
        "async for batch in consumer.batches():\n    print('interrupt me', flush=True)",
    ],
    ids=["Consumer", "AsyncConsumer"],
)
def test_a_cell_that_is_interrupted_ends_at_once_and_the_kernel_goes_on(notebook: Notebook, waiting: str) -> None:
    kind = "AsyncConsumer" if "async" in waiting else "Consumer"
    # An idle loop of the kernel notices an interrupt only when something else wakes it, in asyncio.sleep() as well.
    ticking = """
import asyncio

async def tick():
    while True:
        await asyncio.sleep(0.05)

ticking = asyncio.create_task(tick())
"""
    notebook.run(f"consumer = monedula.{kind}(settings)\nconsumer.assign('orders')")
    if kind == "AsyncConsumer":
        notebook.run(ticking)
    with pytest.raises(CellExecutionError, match=r"KeyboardInterrupt|CancelledError"):
        notebook.run(waiting)
    notebook.run(f"{'await ' if 'async' in waiting else ''}consumer.close()")
    assert text(notebook.run("print(sum(map(len, monedula.read(settings, 'orders'))))")) == "40\n"


def test_a_cell_that_awaits_reads_and_may_be_run_again(notebook: Notebook) -> None:
    cell = """
async with monedula.AsyncConsumer(settings) as consumer:
    consumer.assign('orders')
    rows = 0
    async for batch in consumer.batches(until='latest'):
        rows += len(batch)
rows
"""
    assert shown(notebook.run(cell))["text/plain"] == "40"
    assert shown(notebook.run(cell))["text/plain"] == "40"


@pytest.mark.parametrize("kind", ["Consumer", "AsyncConsumer"])
def test_a_cell_of_a_member_that_is_run_again_warns_of_the_first_one(
    notebook: Notebook, broker: Broker, kind: str
) -> None:
    word = "async " if kind == "AsyncConsumer" else ""
    notebook.run("kept = []")
    cell = f"""
consumer = monedula.{kind}({{**settings, "group.id": "cells", "heartbeat.interval.ms": 300}}, topics=["orders"])
kept.append(consumer)
{word}for batch in consumer.batches(timeout=3.0):
    print(len(batch), flush=True)
"""
    first = notebook.run(cell)
    assert sum(map(int, text(first).split())) == 40
    assert text(first, "stderr") == ""
    broker.append("orders", ["late"], partition=0)
    broker.append("orders", ["late"], partition=1)
    again = notebook.run(cell)
    assert sum(map(int, text(again).split())) == 1
    warning = text(again, "stderr")
    assert warning.count("monedula: another member of group 'cells' in this process is open") == 1
    assert ("orders-0" in warning) != ("orders-1" in warning)
    wait = "await " if kind == "AsyncConsumer" else ""
    notebook.run(f"for each in kept:\n    {wait}each.close()")
    broker.append("orders", ["later"], partition=0)
    alone = notebook.run(cell)
    assert text(alone, "stderr") == ""


def test_a_progress_bar_shows_how_far_a_read_is(notebook: Notebook) -> None:
    """As notebooks show it; tests/house runs the recipes of the cookbook."""
    outputs = notebook.run("""
from tqdm.auto import tqdm

with tqdm(unit=" offsets") as bar:

    def show(done, total):
        bar.total = total
        bar.update(done - bar.n)

    monedula.read(settings, "orders", progress=show).to_pyarrow()
""")
    assert "40/40" in text(outputs, "stderr")
