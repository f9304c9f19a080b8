"""`monedula produce`: sends lines, JSON, Arrow or Parquet to topics."""

import os
import sys
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from monedula._providers import PROVIDERS
from monedula.cli.positions import partitions_of
from monedula.cli.progress import Bar
from monedula.cli.running import Failure, UsageError, command, say
from monedula.cli.settings import BootstrapServers, Setting, SettingsFile, pair, settings_of
from monedula.cli.sources import Headers, Input, Line, input_of, json_lines, named, opened, tables, text_lines
from monedula.config import config_keys
from monedula.errors import KafkaError, KafkaTimeoutError, UnknownTopicError
from monedula.producer import Producer

# Seconds that the command still delivers records after Ctrl-C.
_LAST_WORDS_SECONDS = 5.0

# The most Arrow batches in flight: so the next batch is read while earlier ones are sent.
_TABLES = 4

EXAMPLES = """
echo hello | monedula produce orders
seq 1000 | monedula produce orders --header source=seq -z lz4
printf 'a:1\\nb:2\\n' | monedula produce orders --key-separator :
monedula consume orders -f json | monedula produce orders -f json
monedula consume orders -o orders.parquet && monedula produce orders -i orders.parquet
"""


@command("produce")
def produce(
    topic: Annotated[
        str | None, typer.Argument(help="Where to; without it, what the data says in its field or column topic.")
    ] = None,
    bootstrap_servers: BootstrapServers = None,
    file: Annotated[Path | None, typer.Option("-i", "--input", help="A file; standard input without it.")] = None,
    format_: Annotated[
        Input | None, typer.Option("-f", "--format", help="By default what the file's name ends in, otherwise lines.")
    ] = None,
    partition: Annotated[
        str | None, typer.Option("-p", "--partition", help="This partition; else what the data says, or the key.")
    ] = None,
    any_partition: Annotated[
        bool, typer.Option("--any-partition", help="Do not heed the field or column partition of the data.")
    ] = False,
    key: Annotated[str | None, typer.Option("--key", help="The key of records that have none of their own.")] = None,
    key_separator: Annotated[
        str | None, typer.Option("-k", "--key-separator", help="In lines: what stands between key and value.")
    ] = None,
    null: Annotated[
        str | None, typer.Option("--null", metavar="TEXT", help="In lines: a key or value that is this is null.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("-H", "--header", metavar="NAME=VALUE", help="A header of each. Repeatable.")
    ] = None,
    key_column: Annotated[str | None, typer.Option(help="In Arrow and Parquet: the column that is the key.")] = None,
    value_column: Annotated[str | None, typer.Option(help="The column that is the value.")] = None,
    compression: Annotated[
        str | None, typer.Option("-z", "--compression", help="none, gzip, snappy, lz4 or zstd.")
    ] = None,
    setting: Setting = None,
    settings_file: SettingsFile = None,
) -> None:
    """Send lines, JSON, Arrow or Parquet to topics.

    From standard input or a file; a line is a record, unless an option says otherwise. JSON lines are what
    monedula consume --format json writes: objects with value, key, headers, and so on. Lines that are JSON
    and simply the values need no format.
    """
    kind = input_of(format_, file)
    _check_options(kind, topic, key, key_separator, null, header, key_column, value_column)
    fixed = partitions_of([partition] if partition else None)
    if len(fixed) > 1:
        raise UsageError(f"--partition {partition}: a record goes to one partition")
    settings = settings_of(bootstrap_servers, setting, settings_file)
    if compression is not None:
        settings["compression.type"] = compression
    with opened(file) as stream:
        tabular = kind in (Input.arrow, Input.parquet)
        rows, batches = tables(stream, file, kind) if tabular else (None, iter(()))
        size = rows if tabular or file is None else os.fstat(stream.fileno()).st_size
        if file is None and stream.isatty():
            say("one record a line; Ctrl-D ends")
        with Producer(settings) as producer, Bar("sending", size, wanted=file is not None) as bar:
            _reach(settings)
            if tabular:
                sending = _Tables(producer, bar, topic, fixed, any_partition)
                sending.send(named(batch, key_column, value_column) for batch in batches)
                return
            pairs = [pair(text, "--header") for text in header or ()]
            headers: Headers = [(name, value.encode()) for name, value in pairs]
            common = _Common(topic, fixed[0] if fixed else None, any_partition, key and key.encode(), headers)
            lines = json_lines(stream) if kind is Input.json else text_lines(stream, key_separator, null)
            _Lines(producer, bar, common).send(lines)


def _reach(settings: dict[str, str]) -> None:
    """Connect to the cluster first, so that a wrong address is reported before `delivery.timeout.ms` (2 minutes)."""
    from monedula.admin import Admin

    keys = (key for key in config_keys() if key.role in ("all", "admin"))
    known = {name for key in keys for name in (key.name, *key.aliases)}

    def is_known(name: str) -> bool:
        dotted = name.replace("_", ".")
        return dotted in known or dotted.startswith(PROVIDERS)

    with Admin({name: value for name, value in settings.items() if is_known(name)}) as admin:
        admin.describe_cluster()


class _Common:
    """The topic, partition, key and headers from the command line, for all records."""

    def __init__(
        self, topic: str | None, partition: int | None, any_partition: bool, key: Any, headers: Headers
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.any_partition = any_partition
        self.key = key
        self.headers = headers

    def partition_of(self, line: Line) -> int | None:
        if self.partition is not None:
            return self.partition
        return None if self.any_partition else line.partition


class _Lines:
    """Sends records one by one. Stops reading when the first record fails."""

    def __init__(self, producer: Producer, bar: Bar, common: _Common) -> None:
        self._producer = producer
        self._bar = bar
        self._common = common
        self._sent: deque[tuple[int, Any]] = deque()
        self._acknowledged = 0
        self._failure: Failure | None = None

    def send(self, lines: Iterable[Line]) -> None:
        """Send them all, and wait until all are acknowledged."""
        try:
            self._read(lines)
        except Failure as error:
            self._failure = error
        except KeyboardInterrupt:
            self._part()
            raise
        self._producer.flush()
        self._settle(len(self._sent))
        _report(self._acknowledged, self._failure)

    def _read(self, lines: Iterable[Line]) -> None:
        passed = 0
        try:
            for line in lines:
                self._send(line)
                passed += line.size
                self._bar.at(passed)
                # Two futures are checked for each new one, so that a failure is seen soon, also with a slow input.
                self._settle(2)
                if self._failure is not None:
                    return
        finally:
            self._bar.at(passed)

    def _part(self) -> None:
        """After Ctrl-C: wait at most 5 seconds for the records that were sent, and say what is missing."""
        with suppress(KafkaTimeoutError):
            self._producer.flush(_LAST_WORDS_SECONDS)
        self._settle(len(self._sent))
        if self._failure is not None or self._sent:
            missing = f"{len(self._sent)} records are not acknowledged" if self._sent else str(self._failure)
            say(f"monedula produce: stopped; {missing}")

    def _send(self, line: Line) -> None:
        common = self._common
        topic = common.topic or line.topic
        if topic is None:
            raise Failure(f"line {line.number}: where to? Give a topic on the command line, or a field topic")
        try:
            future = self._producer.send(
                topic,
                line.value,
                common.key if line.key is None else line.key,
                common.partition_of(line),
                [*(line.headers or ()), *common.headers] or None,
                line.timestamp,
            )
        except KafkaError as error:
            raise Failure(f"line {line.number}: {error}") from None
        self._sent.append((line.number, future))
        self._bar.count(1, line.size)

    def _settle(self, most: int) -> None:
        """Remove up to `most` futures that are done from the front of the queue, and keep the first error."""
        common = self._common
        while self._sent and most:
            number, future = self._sent[0]
            if not future.done():
                return
            self._sent.popleft()
            most -= 1
            error = future.exception()
            if error is None:
                self._acknowledged += 1
            elif self._failure is None:
                said = common.partition is None and not common.any_partition
                self._failure = Failure(f"line {number}: {_described(error, said)}")


class _Tables:
    """Sends Arrow batches, without a Python object for each row."""

    def __init__(self, producer: Producer, bar: Bar, topic: str | None, fixed: list[int], any_partition: bool) -> None:
        self._producer = producer
        self._bar = bar
        self._topic = topic
        self._fixed = fixed
        self._any_partition = any_partition
        self._sent: deque[tuple[int, Any]] = deque()
        self._rows = 0
        self._acknowledged = 0
        self._failure: Failure | None = None

    def send(self, batches: Iterable[Any]) -> None:
        """Send them all, and wait until all are acknowledged."""
        try:
            self._read(batches)
        except Failure as error:
            self._failure = error
        except KeyboardInterrupt:
            with suppress(KafkaTimeoutError):
                self._producer.flush(_LAST_WORDS_SECONDS)
            self._settle(0, done=True)
            if self._sent:
                say("monedula produce: stopped; not all rows are acknowledged")
            raise
        self._settle(0)
        _report(self._acknowledged, self._failure)

    def _read(self, batches: Iterable[Any]) -> None:
        for batch in batches:
            self._sent.append((self._rows, self._producer.send_batch(self._shaped(batch), self._topic)))
            self._rows += batch.num_rows
            self._bar.count(batch.num_rows, batch.nbytes)
            self._bar.at(self._rows)
            self._settle(_TABLES)
            if self._failure is not None:
                return

    def _shaped(self, batch: Any) -> Any:
        names = [name for name in batch.schema.names if name != "partition" or not self._replaced]
        batch = batch.select(names)
        if self._fixed:
            import pyarrow

            column = pyarrow.repeat(pyarrow.scalar(self._fixed[0], pyarrow.int32()), batch.num_rows)
            batch = pyarrow.RecordBatch.from_arrays([*batch.columns, column], names=[*names, "partition"])
        return batch

    @property
    def _replaced(self) -> bool:
        return self._any_partition or bool(self._fixed)

    def _settle(self, left: int, done: bool = False) -> None:
        """Wait for the first batches until `left` are in flight, and keep the first error.

        With `done`, it does not wait, but stops at the first batch that is not done.
        """
        while len(self._sent) > left and not (done and not self._sent[0][1].done()):
            first, future = self._sent.popleft()
            report = future.report()
            self._acknowledged += report.acknowledged
            if report.failed and self._failure is None:
                row, error = report.errors[0]
                described = _described(error, not self._replaced)
                self._failure = Failure(
                    f"row {first + row}: {described} ({report.failed} of {report.num_rows} rows failed)"
                )


def _described(error: BaseException, said: bool) -> str:
    """The text of an error; names `--any-partition` if the data has a partition that the topic does not have."""
    if said and isinstance(error, UnknownTopicError) and error.partition is not None:
        return f"{error}; --any-partition does not heed the partitions of the data"
    return str(error)


def _report(acknowledged: int, failure: Failure | None) -> None:
    records = "1 record was" if acknowledged == 1 else f"{acknowledged} records were"
    if failure is not None:
        raise Failure(f"{failure}; {records} acknowledged")
    if sys.stderr.isatty():
        say(f"{records} acknowledged")


def _check_options(
    kind: Input,
    topic: str | None,
    key: str | None,
    key_separator: str | None,
    null: str | None,
    header: list[str] | None,
    key_column: str | None,
    value_column: str | None,
) -> None:
    tabular = kind in (Input.arrow, Input.parquet)
    if kind is Input.lines and topic is None:
        raise UsageError("where to? Give a topic: monedula produce orders")
    if kind is not Input.lines and (key_separator is not None or null is not None):
        raise UsageError("--key-separator and --null are for --format lines")
    if not tabular and (key_column or value_column):
        raise UsageError("--key-column and --value-column are for Arrow and Parquet")
    if tabular and (key is not None or header):
        raise UsageError("--key and --header are for lines and JSON; a table has them in its columns")
    if key_separator == "":
        raise UsageError("--key-separator is empty")
