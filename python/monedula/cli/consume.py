"""`monedula consume`: writes records to a terminal, a pipe or a file."""

import logging
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import monedula
from monedula import Admin, Batch, TopicPartition
from monedula._config.texts import dotted
from monedula._reprs import counted
from monedula.cli import consume_options
from monedula.cli.administration import Partitions
from monedula.cli.conditions import where_of
from monedula.cli.decoding import Schema, decoder
from monedula.cli.failures import Failure, UsageError
from monedula.cli.files import STANDARD_OUTPUT, named, remove_broken
from monedula.cli.filters import Filter
from monedula.cli.formats import WHOLE, Format, format_of, open_sink
from monedula.cli.other_tools import POSITIONS
from monedula.cli.positions import Place, partitions_of, place_of
from monedula.cli.progress import Bar
from monedula.cli.rendering import Form
from monedula.cli.running import Interrupts, command, say
from monedula.cli.settings import BootstrapServers, Setting, SettingsFile, names_registry, overruled, settings_of
from monedula.cli.silence import Silence
from monedula.cli.sinks import Look, Sink
from monedula.cli.templates import Template
from monedula.cli.topic_names import Names, check_names, compiled, expanded, is_pattern
from monedula.consumer._base import MAX_ROWS
from monedula.errors import BrokersUnavailableError, KafkaTimeoutError
from monedula.formats._typed import Typed
from monedula.types.partitions import Position

_logger = logging.getLogger(__name__)

# Seconds after which a command that waits for records looks whether brokers answer.
_WAIT = 1.0
# Seconds for which brokers are asked for topics, however short --timeout is: a new topic may be unknown to them for
# less.
_LOOKUP_SECONDS = 5.0


@command("consume")
def consume(
    topics: Names,
    bootstrap_servers: BootstrapServers = None,
    partition: Partitions = None,
    start: consume_options.Start = "earliest",
    end: consume_options.End = None,
    follow: consume_options.Follow = False,
    group: consume_options.Group = None,
    max_rows: consume_options.MaxRows = None,
    timeout: consume_options.Timeout = None,
    format_: consume_options.FormatName = None,
    output: consume_options.Output = None,
    key: consume_options.Keys = None,
    value: consume_options.Values = None,
    header: consume_options.WithHeader = None,
    where: consume_options.Conditions = None,
    key_separator: consume_options.KeySeparator = None,
    key_as: consume_options.KeyAs = Form.auto,
    value_as: consume_options.ValueAs = Form.auto,
    null: consume_options.Null = "",
    headers: consume_options.Headers = False,
    columns: consume_options.Columns = None,
    decode: consume_options.Decoding = None,
    schema: consume_options.DecodedSchema = None,
    message: consume_options.DecodedMessage = None,
    subject: consume_options.DecodedSubject = None,
    framing: consume_options.DecodedFraming = None,
    schemas: consume_options.WritersSchemas = None,
    bad: consume_options.BadValues = None,
    flatten: consume_options.Flatten = False,
    setting: Setting = None,
    settings_file: SettingsFile = None,
) -> None:
    r"""Read topics to a screen, a file or a pipe.

    As text, JSON lines, CSV, Arrow or Parquet. All that is there now, unless an option says otherwise, without
    a group and without committing anything. On a terminal each line says where the record is; in a pipe it is the
    record's value and nothing else.

    Examples:
        monedula consume orders
        monedula consume orders --from -10 --follow
        monedula consume orders --from 2026-11-21T10:00 --to "5m ago" -o orders.parquet
        monedula consume orders --format json --max-rows 3
        monedula consume orders -f '%p %o %k: %s\n' --value '~"amount": [0-9]+'
        monedula consume '^ord' --key =key-7 -o key-7.csv
        monedula consume orders --where 'headers.source = web' --where 'timestamp >= 1h ago'
        monedula consume orders --group etl --timeout 10 --key-separator :
        monedula consume orders --decode json --schema 'id bigint, user string' --flatten -o orders.parquet
        monedula consume orders --decode avro --bad null -o orders.parquet -F registry.properties
        monedula consume orders --decode avro --framing glue --schemas schemas.json --bad null
        monedula consume orders --decode protobuf --schema order.proto --bad null --format json --max-rows 3
    """
    settings = settings_of(bootstrap_servers, setting, settings_file)
    output = None if output == Path("-") else output
    _check_is_file(output)
    wanted = None if columns is None else tuple(name.strip() for name in columns.split(","))
    look = Look(key_separator, key_as, value_as, wanted, null, decode is not None)
    if decode is not None and value:
        raise UsageError("--value looks at bytes, and --decode makes columns of them; give one of them")
    if decode is not None and value_as not in (Form.auto, Form.json):
        raise UsageError(
            f"--value-as {value_as} says how bytes become text, and --decode makes JSON of them; give one of them"
        )
    kind = format_of(format_, output)
    target = _Target(kind, output, look, Filter(key, value, header), headers, max_rows)
    has_registry = names_registry(settings, decode is not None)
    told = Schema(schema, message, subject, topics, has_registry, framing, schemas)
    target.shape["value"] = decoder(decode, told, bad, flatten, kind)
    target.shape["where"] = where_of(where)
    check_names(topics)
    partitions = partitions_of(partition)
    _check_together(follow, group, end, timeout, bool(partitions))
    if group is not None:
        _as_member(target, overruled(settings, {"group.id": group}), topics, start, timeout)
        return
    topics = _named(settings, topics)
    pairs = [(topic, index) for topic in topics for index in partitions]
    if follow:
        _following(target, settings, topics, pairs, place_of(start, "--from"), timeout)
    else:
        stop = "latest" if end is None else place_of(end, "--to")
        _bounded(target, settings, pairs or topics, place_of(start, "--from"), stop)


def _check_is_file(output: Path | None) -> None:
    # With kcat and rpk, -o is the first offset.
    name = "" if output is None else str(output)
    if name in POSITIONS or re.fullmatch(r"-?\d+", name):
        advice = f"where reading begins is --from WHERE. A file needs another name, as {name}.txt"
        raise UsageError(f"-o {name}: -o names a file; {advice}")


class _Target:
    """The output: its format and file, which records, which columns, and how many are still to be written."""

    def __init__(
        self,
        kind: Format | Template,
        output: Path | None,
        look: Look,
        wanted: Filter,
        headers: bool,
        max_rows: int | None,
    ) -> None:
        self.format = kind
        self.left = max_rows
        self.max_rows = max_rows
        self.read = 0
        """Number of records read."""
        self.written = 0
        self.is_file = output is not None or _is_file(sys.__stdout__)
        self._is_kept = False
        """True if a file that cannot be written completely keeps the batches that were."""
        self._is_broken = False
        """True if the output could not be written completely."""
        self._whole_bytes = 0
        """The size of the output after the last batch that was written completely."""
        self.filter = wanted
        if look.columns is not None:
            _check_columns(kind, look.columns, wanted)
        headers = headers or "headers" in wanted.columns or (isinstance(kind, Template) and "h" in kind.letters)
        self.shape: dict[str, Any] = {"headers": headers, "columns": look.columns}
        self._output = output
        self._look = look

    @contextmanager
    def opened(self, schema: Any, *, goes_on: bool = False) -> Iterator[Sink]:
        """The sink, closed at the end of the block.

        Args:
            schema: the columns.
            goes_on: whether the records in the file are not read again, because they are committed or long gone: then
                a full disk leaves the batches that were written, where the format allows that.
        """
        self._is_kept = goes_on and self.format not in WHOLE
        sink = open_sink(self.format, self._output, self._look, schema)
        try:
            with self._writing():
                sink.flush()
            yield sink
            with self._writing():
                sink.close()
        except BaseException:
            # A batch of which a part is still in memory cannot be written any more, and its error is known.
            with suppress(Exception) if self._is_broken else self._writing():
                sink.close()
            raise
        finally:
            if self._is_broken and self._output is not None:
                self._mend(self._output)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with named(self._output or STANDARD_OUTPUT):
                yield
        except OSError as error:
            self._is_broken = True
            if self._output is None or not self._output.is_file():
                raise
            fate = (
                "it ends with the last records that were written" if self._is_kept else "the incomplete file is removed"
            )
            raise Failure(f"{error.filename}: {error.strerror}; {fate}") from None
        if self._output is not None and self._output.is_file():
            self._whole_bytes = self._output.stat().st_size

    def _mend(self, output: Path) -> None:
        if not self._is_kept:
            remove_broken(output)
        elif output.is_file():
            os.truncate(output, self._whole_bytes)

    def room(self) -> int:
        """The most rows to read at once: no more than are still to be written."""
        return MAX_ROWS if self.left is None else min(MAX_ROWS, self.left)

    def write(self, sink: Sink, batch: Batch) -> None:
        """Write the rows of a batch that the filter wants, or as many of them as are still to be written."""
        rows = self.filter.rows(batch, self.left)
        if rows:
            with self._writing():
                sink.write(batch, rows)
                sink.flush()
        self.read += batch.num_rows
        self.written += len(rows)
        if self.left is not None:
            self.left -= len(rows)
        _logger.debug("wrote %d of %d records", len(rows), batch.num_rows)

    def say_if_empty(self, nothing: str) -> None:
        """Say why there is no output, if there is none; `nothing` says it if no record was read."""
        if self.written == 0 and self.max_rows != 0:
            say(f"no record: {f'none of {self.read} meets the conditions' if self.read else nothing}")


def _bounded(target: _Target, settings: dict[str, str], what: Any, start: Place, end: Place) -> None:
    rows = MAX_ROWS if target.filter else max(target.room(), 1)
    with (
        Interrupts() as interrupts,
        monedula.read(settings, what, start=start, end=end, max_rows=rows, **target.shape) as stream,
        target.opened(stream.schema) as sink,
        # Records that go to a screen, or through a pipe to a program that writes to it, do not mix with a bar.
        Bar("reading", wanted=target.is_file) as bar,
    ):
        _explain(start, len(stream.ranges))
        while target.left != 0 and (batch := next(stream, None)) is not None:
            with interrupts.held():
                target.write(sink, batch)
            bar.count(batch.num_rows, batch.nbytes)
            done, total = stream.progress
            bar.at(done, total if target.max_rows is None or target.filter else min(total, target.max_rows))
    ranges = dict(stream.ranges)
    left_out = any(isinstance(each, Typed) and each.drops for each in target.shape.values())
    has_offsets = any(first < after for first, after in ranges.values())
    dropped = "what is there cannot be decoded, and --bad drop leaves it out"
    nothing = "none meets --where" if target.shape["where"] else _empty(start, end, ranges)
    target.say_if_empty(dropped if left_out and has_offsets else nothing)


def _following(
    target: _Target,
    settings: dict[str, str],
    topics: list[str],
    pairs: list[tuple[str, int]],
    start: Place,
    timeout: float | None,
) -> None:
    reset = start if isinstance(start, str) else "earliest"
    # The group is left out: `--from` sets the start, not the group's committed offsets.
    settings = {name: value for name, value in settings.items() if dotted(name) != "group.id"}
    with (
        Interrupts() as interrupts,
        monedula.Consumer(overruled(settings, {"auto.offset.reset": reset}), **target.shape) as consumer,
    ):
        _look_up(consumer, topics, timeout, pairs)
        with target.opened(consumer.schema, goes_on=True) as sink:
            if isinstance(start, str):
                consumer.assign(pairs or topics)
            else:
                positions = _positions(consumer, pairs or consumer.partitions_of(*topics), start)
                _explain(start, len(positions))
                consumer.assign(positions)
            _poll(target, consumer, sink, interrupts, timeout)


def _as_member(target: _Target, settings: dict[str, str], topics: list[str], start: str, timeout: float | None) -> None:
    place = place_of(start, "--from")
    if not isinstance(place, str):
        raise UsageError(
            f"--from {start}: a group goes on where it committed; use earliest or latest, "
            "-X auto.offset.reset=by_duration:P7D for a new one, or reset its offsets"
        )
    commits = all(value.lower() != "false" for name, value in settings.items() if dotted(name) == "enable.auto.commit")
    settings = overruled({"auto.offset.reset": place}, settings)
    if target.format in WHOLE:
        # Parquet and Arrow files are only readable after they are closed: no offset may be committed before that.
        settings = overruled(settings, {"enable.auto.commit": "false"})
    stopped: KeyboardInterrupt | None = None
    what = _subscription(topics)
    with (
        Interrupts() as interrupts,
        monedula.Consumer(settings, **target.shape) as consumer,
    ):
        # Topics are looked up before the consumer joins: a member that leaves at once would have the group assign
        # partitions twice.
        _look_up(consumer, [name for name in topics if not is_pattern(name)], timeout)
        consumer.subscribe(what)
        with target.opened(consumer.schema, goes_on=True) as sink:
            try:
                _poll(target, consumer, sink, interrupts, timeout)
            except KeyboardInterrupt as error:
                if interrupts.torn:
                    raise
                stopped = error
        if commits:
            consumer.commit()
    if stopped is not None:
        raise stopped


def _look_up(
    consumer: monedula.Consumer, topics: list[str], timeout: float | None, pairs: Sequence[tuple[str, int]] = ()
) -> None:
    """Check that topics and partitions exist.

    A consumer waits for those that do not, so that a short `--timeout` would end without an error.
    """
    if not topics:
        return
    # Errors of unreachable brokers are ignored without --timeout: `_poll` waits for them and reports it.
    with suppress(BrokersUnavailableError, KafkaTimeoutError) if timeout is None else nullcontext():
        known = consumer.partitions_of(*topics, timeout=None if timeout is None else max(timeout, _LOOKUP_SECONDS))
        for topic, index in pairs:
            if (topic, index) not in known:
                count = sum(partition.topic == topic for partition in known)
                raise Failure(f"{topic}-{index}: the topic has {counted(count, 'partition')}, 0 to {count - 1}")


def _poll(
    target: _Target, consumer: monedula.Consumer, sink: Sink, interrupts: Interrupts, timeout: float | None
) -> None:
    silence = Silence()
    while target.left != 0:
        if timeout is None:
            batch = _next(consumer, target.room(), silence)
        elif not (batch := consumer.poll(timeout, target.room())):
            target.say_if_empty(f"none came in {timeout:g} s")
            return
        with interrupts.held():
            target.write(sink, batch)


def _next(consumer: monedula.Consumer, max_rows: int, silence: Silence) -> Batch:
    """Wait for records a while. Brokers that do not answer are waited for, and reported."""
    while True:
        with suppress(BrokersUnavailableError):
            if batch := consumer.poll(_WAIT, max_rows):
                silence.answered()
                return batch
        silence.look(consumer.health())


def _named(settings: dict[str, str], names: list[str]) -> list[str]:
    if not any(map(is_pattern, names)):
        return names
    with Admin(settings) as admin:
        return expanded(admin, names)


def _subscription(names: list[str]) -> list[str] | re.Pattern[str]:
    """The subscription of a member, which finds topics that match a pattern also when they are created later."""
    if not any(map(is_pattern, names)):
        return names
    parts = [f".*(?:{compiled(name).pattern}).*" if is_pattern(name) else re.escape(name) for name in names]
    return re.compile("|".join(parts))


def _explain(start: Place, partitions: int) -> None:
    """Say what a negative number counts, where that makes a difference."""
    if isinstance(start, int) and start < 0 and partitions > 1:
        say(f"--from {start} is per partition: the last {-start} records of each of {partitions} partitions")


def _empty(start: Place, end: Place, ranges: dict[TopicPartition, tuple[int, int]]) -> str:
    """Say that there is nothing to read in these ranges of offsets, which `--from` and `--to` came to."""
    if (start, end) == ("earliest", "latest"):
        return "nothing is there now"
    shown = [f"{topic}-{index} {first}..{after}" for (topic, index), (first, after) in sorted(ranges.items())]
    more = f" and {len(shown) - 5} partitions more" if len(shown) > 5 else ""
    return f"nothing is there from {_told(start)} to {_told(end)} (offsets: {', '.join(shown[:5])}{more})"


def _told(place: Place) -> str:
    return place.isoformat(timespec="seconds") if isinstance(place, datetime) else str(place)


def _is_file(stream: Any) -> bool:
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (AttributeError, OSError, ValueError):
        return False


def _check_columns(kind: Format | Template, columns: tuple[str, ...], wanted: Filter) -> None:
    if isinstance(kind, Template) or kind is Format.text:
        raise UsageError("--columns is for JSON, CSV, Arrow and Parquet; add --format json")
    missing = [name for name in wanted.columns if name not in columns and name != "headers"]
    if missing:
        raise UsageError(f"--{missing[0]} needs the column {missing[0]}, which --columns leaves out; add it")


def _positions(
    consumer: monedula.Consumer, pairs: Iterable[tuple[str, int]], start: int | datetime
) -> dict[tuple[str, int], Position]:
    pairs = list(pairs)
    if not isinstance(start, int) or start >= 0:
        return dict.fromkeys(pairs, start)
    first, end = consumer.beginning_offsets(pairs), consumer.end_offsets(pairs)
    return {pair: max(end[TopicPartition(*pair)] + start, first[TopicPartition(*pair)]) for pair in pairs}


def _check_together(
    follow: bool, group: str | None, end: str | None, timeout: float | None, some_partitions: bool
) -> None:
    endless = "--follow" if follow else "--group"
    if group == "":
        raise UsageError("--group is empty, as of a variable that is not set")
    if end is not None and (follow or group is not None):
        raise UsageError(f"--to and {endless} contradict each other: {endless} reads on")
    if timeout is not None and not (follow or group is not None):
        raise UsageError("--timeout is for --follow and --group; other reads end at the end of the topic")
    if some_partitions and group is not None:
        raise UsageError("--partition and --group contradict each other: the group says who reads which partition")
