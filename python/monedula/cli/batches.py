"""Arrow batches that `monedula produce` sends: tables, and lines of JSON that are written in a format."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from monedula.cli.encoded import (
    Apart,
    BadValue,
    Convert,
    Nulls,
    Shape,
    convert_to,
    joined,
    narrowed,
    nulls_of,
    shape_of,
)
from monedula.cli.failures import Failure
from monedula.cli.placing import Placing
from monedula.cli.progress import Bar
from monedula.cli.records import LAST_WORDS_SECONDS, Common, report
from monedula.cli.running import say
from monedula.cli.sources import Line
from monedula.cli.wording import CommandWording
from monedula.errors import ArgumentError, KafkaTimeoutError, SchemaRegistryError
from monedula.formats._typed import Typed
from monedula.formats.avro import Avro
from monedula.producer.sync import Producer
from monedula.types.times import EPOCH

# The most Arrow batches in flight: so the next batch is read while earlier ones are sent.
_TABLES = 4
# The most batches in flight of lines that come slowly, each of which may be a single line.
_RUNS = 64


class Batches:
    """Sends Arrow batches, without a Python object for each row. Errors name rows by numbers that come with them."""

    _word = "row"

    def __init__(self, producer: Producer, bar: Bar, forms: Mapping[str, Typed]) -> None:
        self._producer = producer
        self._bar = bar
        self._forms = forms
        self._sent: deque[tuple[Sequence[int], Any]] = deque()
        self._acknowledged = 0
        self._failure: Failure | None = None

    def send(self, parts: Iterable[Any]) -> None:
        """Send them all, and wait until all are acknowledged."""
        try:
            self._read(parts)
        except Failure as error:
            self._failure = self._failure or error
        except KeyboardInterrupt:
            with suppress(KafkaTimeoutError):
                self._producer.flush(LAST_WORDS_SECONDS)
            self._settle(0, done=True)
            if self._sent:
                say("monedula produce: stopped; not all rows are acknowledged")
            raise
        self._settle(0)
        report(self._acknowledged, self._failure)

    def _read(self, parts: Iterable[Any]) -> None:
        raise NotImplementedError

    def _send(self, batch: Any, topic: str | None, numbers: Sequence[int]) -> None:
        """Send a batch, or its rows up to the first that cannot be written."""
        try:
            self._sent.append((numbers, self._producer.send_batch(batch, topic, **self._forms)))
        except SchemaRegistryError as error:
            raise Failure(str(error)) from None
        except ArgumentError as error:
            if not self._forms:
                raise
            wording = CommandWording("key" if (error.argument or "").startswith("key") else "value")
            if error.row is None:
                raise Failure(self._of_columns(wording.told(error), numbers)) from None
            if error.row > 0:
                self._send(batch.slice(0, error.row), topic, numbers[: error.row])
            raise Failure(f"{self._word} {numbers[error.row]}: {wording.reason(error)}") from None

    def _of_columns(self, reason: str, _numbers: Sequence[int]) -> str:
        return reason

    def _settle(self, left: int, done: bool = False) -> None:
        """Wait for the first batches until `left` are in flight, and keep the first error.

        With `done`, it does not wait, but stops at the first batch that is not done.
        """
        while len(self._sent) > left and not (done and not self._sent[0][1].done()):
            numbers, future = self._sent.popleft()
            found = future.report()
            self._acknowledged += found.acknowledged
            if found.failed and self._failure is None:
                row, error = found.errors[0]
                rows = f" ({found.failed} of {found.num_rows} {self._word}s failed)" if found.num_rows > 1 else ""
                self._failure = Failure(f"{self._word} {numbers[row]}: {error}{rows}", error)


class Tables(Batches):
    """Sends the batches of an Arrow or Parquet file."""

    def __init__(
        self,
        producer: Producer,
        bar: Bar,
        forms: Mapping[str, Typed],
        topic: str | None,
        fixed: list[int],
        any_partition: bool,
        placing: Placing,
    ) -> None:
        self._topic = topic
        self._placing = placing
        self._fixed = fixed
        self._replaced = any_partition or bool(fixed)
        super().__init__(producer, bar, forms)

    def _read(self, parts: Iterable[Any]) -> None:
        rows = 0
        for batch in parts:
            numbers = range(rows, rows + batch.num_rows)
            self._send(self._shaped(batch), self._topic, numbers)
            rows = numbers.stop
            self._bar.count(batch.num_rows, batch.nbytes)
            self._bar.at(rows)
            self._settle(_TABLES)
            if self._failure is not None:
                return

    def _shaped(self, batch: Any) -> Any:
        names = [name for name in batch.schema.names if name != "partition" or not self._replaced]
        batch = batch.select(names)
        if "partition" in names:
            at = names.index("partition")
            batch = batch.set_column(at, "partition", self._placing.column(batch, self._topic))
        if self._fixed:
            import pyarrow

            column = pyarrow.repeat(pyarrow.scalar(self._fixed[0], pyarrow.int32()), batch.num_rows)
            batch = pyarrow.RecordBatch.from_arrays([*batch.columns, column], names=[*names, "partition"])
        return batch


class _Column:
    """A column of keys or values of lines: bytes, or JSON that is written in a format."""

    def __init__(self, name: str, form: Typed | None) -> None:
        import pyarrow

        self.name = name
        self._kind = pyarrow.binary()
        self._convert: Convert | None = None
        self._nulls: Nulls | None = None
        if form is not None:
            self._kind = pyarrow.table(form.spec.decode([])).schema.field("value").type
            self._convert = convert_to(self._kind)
            if isinstance(form, Avro):
                self._nulls = nulls_of(form.reader)

    def converted(self, data: Any) -> Any:
        """Convert a value for pyarrow."""
        if self._convert is None:
            return data
        try:
            return self._convert(data)
        except BadValue as bad:
            raise bad.within(self.name) from None

    def shape_of(self, data: Any) -> Shape:
        """The fields that are there, where that makes a difference: a field that is null has no default."""
        return None if self._nulls is None else shape_of(data, self._kind, self._nulls)

    def array(self, data: list[Any], shape: Shape) -> Any:
        import pyarrow

        return pyarrow.array(data, narrowed(self._kind, shape))


class _Run:
    """Lines one after another that are one batch: of one topic, and with the same fields."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.lines: list[Line] = []
        self.shapes: dict[str, Shape] = {}

    def takes(self, topic: str, shapes: dict[str, Shape]) -> bool:
        """Return true if a line belongs to this batch; its shape becomes the batch's then."""
        if topic != self.topic:
            return False
        try:
            self.shapes = {name: joined(self.shapes.get(name), shape) for name, shape in shapes.items()}
        except Apart:
            return False
        return True


class TypedLines(Batches):
    """Sends lines of JSON whose keys or values are written in a format.

    The lines that are there at once are a batch, so that none waits for another one.
    """

    _word = "line"

    def __init__(self, producer: Producer, bar: Bar, forms: Mapping[str, Typed], common: Common) -> None:
        super().__init__(producer, bar, forms)
        self._common = common
        self._columns = [_Column(name, forms.get(name)) for name in ("key", "value")]
        self._run: _Run | None = None

    def _read(self, parts: Iterable[Iterator[Line]]) -> None:
        passed = 0
        for lines in parts:
            try:
                for line in lines:
                    self._add(line)
                    passed += line.size
            except Failure:
                # Lines before the failed one are sent.
                self._flush()
                raise
            self._flush()
            self._bar.at(passed)
            self._settle(0, done=True)
            self._settle(_RUNS)
            if self._failure is not None:
                return

    def _add(self, line: Line) -> None:
        common = self._common
        topic = common.topic or line.topic
        if topic is None:
            raise Failure(f"line {line.number}: where to? Give a topic on the command line, or a field topic")
        line.key = common.key if line.key is None else line.key
        line.partition = common.partition_of(line, topic)
        for name, number in (("partition", line.partition), ("timestamp", line.timestamp)):
            if isinstance(number, int) and not -(1 << 63) <= number < 1 << 63:
                raise Failure(f"line {line.number}: {name} {number} is too large")
        given = {"key": line.key, "value": line.value}
        try:
            line.key, line.value = (each.converted(given[each.name]) for each in self._columns)
        except BadValue as bad:
            raise Failure(f"line {line.number}: {bad}") from None
        shapes = {each.name: each.shape_of(given[each.name]) for each in self._columns}
        if self._run is None or not self._run.takes(topic, shapes):
            self._flush()
            self._run = _Run(topic)
            self._run.takes(topic, shapes)
        self._run.lines.append(line)

    def _flush(self) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        size = sum(line.size for line in run.lines)
        self._send(self._batch(run), run.topic, [line.number for line in run.lines])
        self._bar.count(len(run.lines), size)

    def _batch(self, run: _Run) -> Any:
        import pyarrow as pa

        lines = run.lines
        rows = {"key": [line.key for line in lines], "value": [line.value for line in lines]}
        columns = {each.name: each.array(rows[each.name], run.shapes[each.name]) for each in self._columns}
        if any(line.partition is not None for line in lines):
            columns["partition"] = pa.array([line.partition for line in lines], pa.int64())
        if any(line.timestamp is not None for line in lines):
            columns["timestamp"] = pa.array([_milliseconds(line.timestamp) for line in lines], pa.int64())
        headers = [[*(line.headers or ()), *self._common.headers] for line in lines]
        if any(headers):
            kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
            named = [[{"key": name, "value": value} for name, value in each] for each in headers]
            columns["headers"] = pa.array(named, kind)
        return pa.RecordBatch.from_pydict(columns)

    def _of_columns(self, reason: str, numbers: Sequence[int]) -> str:
        return f"line {numbers[0]}: {reason}"


def _milliseconds(time: int | datetime | None) -> int | None:
    return (time - EPOCH) // timedelta(milliseconds=1) if isinstance(time, datetime) else time
