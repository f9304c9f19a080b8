"""`monedula land`: topics land in tables, each record exactly once; `land check` looks for repeats and gaps.

`land compact` and `land clean` keep a table of Delta in few files.
"""

import re
import signal
import sys
from contextlib import suppress
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option
from typer.core import TyperGroup

from monedula._reprs import counted
from monedula.cli import consume_options
from monedula.cli.administration import Connection, DryRun, administration
from monedula.cli.completing import complete_topics
from monedula.cli.decoding import Bad, Decode, Schema, decoder
from monedula.cli.failures import Failure, UsageError, require
from monedula.cli.formats import Format
from monedula.cli.positions import duration_of, place_of
from monedula.cli.progress import Bar, amount
from monedula.cli.running import Stopped, command, handled, say
from monedula.cli.settings import names_registry, pair, settings_of
from monedula.cli.tables import AsJson, show
from monedula.cli.topic_names import check_name
from monedula.errors import ClosedError
from monedula.formats._typed import Typed
from monedula.formats.json import Json
from monedula.types.partitions import Position, Until

if TYPE_CHECKING:
    from monedula.landing.commits import LandingCommit
    from monedula.landing.start_positions import Start

_LOOK_SECONDS = 0.2


class TableFormat(StrEnum):
    """Format of a table."""

    delta = "delta"
    iceberg = "iceberg"


class BadRecords(StrEnum):
    """Fate of records that cannot be decoded."""

    fail = "fail"
    column = "column"
    null = "null"
    drop = "drop"


class Unwrap(StrEnum):
    """Envelope of values."""

    debezium = "debezium"


class LandGroup(TyperGroup):
    """`monedula land orders ./lake` is `monedula land topic orders ./lake`."""

    DEFAULT = "topic"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the name of the command before what is none."""
        if args and args[0] not in (*self.commands, "-h", "--help"):
            args = [self.DEFAULT, *args]
        return super().parse_args(ctx, args)


Table = Annotated[
    str, Argument(metavar="TARGET", help="Of Delta a folder or a URL, s3://bucket/orders; of Iceberg NAMESPACE.NAME.")
]
DeltaTable = Annotated[str, Argument(metavar="TARGET", help="A folder or a URL, s3://bucket/orders.")]
OfFormat = Annotated[
    TableFormat | None, Option("--format", help="The table's format: iceberg with --catalog, or else delta.")
]
Catalog = Annotated[
    str | None,
    Option("--catalog", metavar="NAME|URI", help="Of Iceberg: the catalog, of pyiceberg's configuration or its URI."),
]
Job = Annotated[
    str | None,
    Option(
        "--job", metavar="NAME", help="The name of the positions in the table; group.id, or land-TOPIC, if left out."
    ),
]
StoreOptions = Annotated[
    list[str] | None,
    Option("--storage-option", metavar="KEY=VALUE", help="An option of the store, or of the catalog. Repeatable."),
]


@administration("land topic")
def land(
    connection: Connection,
    topic: Annotated[str, Argument(help="The topic.", autocompletion=complete_topics)],
    target: Table,
    format_: OfFormat = None,
    catalog: Catalog = None,
    value: Annotated[
        Decode | None, Option("--value", "--decode", help="Decode values: each field is a column. Else they are bytes.")
    ] = None,
    schema: consume_options.DecodedSchema = None,
    message: consume_options.DecodedMessage = None,
    subject: consume_options.DecodedSubject = None,
    framing: consume_options.DecodedFraming = None,
    schemas: consume_options.WritersSchemas = None,
    unwrap: Annotated[
        Unwrap | None, Option(help="Values are envelopes; the columns are those of their rows, _op and _ts_ms.")
    ] = None,
    bad: Annotated[
        BadRecords,
        Option(help="Values that cannot be decoded end the command, are kept in columns _error and _raw, and so on."),
    ] = BadRecords.fail,
    dead_letter: Annotated[
        str | None, Option("--dead-letter", metavar="TOPIC", help="Write values that cannot be decoded to this topic.")
    ] = None,
    partition_by: Annotated[
        str | None, Option("--partition-by", metavar="COLUMN", help="A column, or day(timestamp), for a new table.")
    ] = None,
    upsert: Annotated[
        list[str] | None,
        Option(
            "--upsert",
            metavar="COLUMN",
            help="Of Delta: the last row of each value of this column replaces those before: key. Repeatable.",
        ),
    ] = None,
    key_column: Annotated[
        str, Option("--key-column", metavar="NAME", help="The column of keys; none for none.")
    ] = "key",
    headers: Annotated[bool, Option("--headers", help="Headers too, in _kafka.")] = False,
    start: Annotated[
        str | None,
        Option(
            "--from",
            metavar="WHERE",
            help="Where partitions begin that are not in the table: earliest, a time, ..., or each: 0=42,1=latest.",
        ),
    ] = None,
    until: Annotated[
        str | None, Option(metavar="WHEN", help="End there: now, or a time. Without it, go on until Ctrl-C.")
    ] = None,
    every: Annotated[str, Option(metavar="TIME", help="Commit so often: 60s, 5m, 1h.")] = "60s",
    max_bytes: Annotated[
        str, Option("--max-bytes", metavar="SIZE", help="Commit earlier at so much: 128MB.")
    ] = "128MB",
    job: Job = None,
    fail_on_data_loss: Annotated[
        bool, Option(help="End if the log has deleted what the table lacks; else go on at its beginning.")
    ] = True,
    dry_run: DryRun = False,
    max_commit_age: Annotated[
        str | None,
        Option(
            "--max-commit-age",
            metavar="TIME",
            help="Not healthy if rows wait for so long; by default ten times --every, but at least 5m.",
        ),
    ] = None,
    health_port: Annotated[
        str | None,
        Option(
            "--health-port",
            metavar="[ADDRESS:]PORT",
            help="Answer /health there, for probes, and /metrics, for Prometheus.",
        ),
    ] = None,
    storage_option: StoreOptions = None,
) -> None:
    """Land a topic in a table, each record exactly once.

    Several of these commands with one --job share the partitions. Ctrl-C and SIGTERM commit what is there.

    Examples:
        monedula land orders ./lake/orders --until now
        monedula land orders ./lake/typed --value json --schema 'amount int' --until now --dry-run
        monedula land orders ./lake/daily --value json --partition-by 'day(timestamp)' --until now
    """
    from monedula.landing.health_server import HealthServer
    from monedula.landing.job import LandingJob

    settings = settings_of(*connection)
    check_name(topic, "; this command lands one topic")
    serving = None if health_port is None else _address(health_port)
    table = _target(format_, target, catalog, storage_option, partition_by, upsert)
    keys = None if key_column == "none" else key_column
    told = Schema(schema, message, subject, [topic], names_registry(settings, value is not None), framing, schemas)
    made = LandingJob(
        settings,
        topic,
        table,
        # A terminal has a bar.
        on_commit=None if until is not None or sys.stderr.isatty() else _say_committed,
        value=_decoder(value, told, bad, dead_letter, settings, table, job, keys, unwrap),
        unwrap=None if unwrap is None else "debezium",
        job=job,
        start=None if start is None else _start(start, topic),
        until=None if until is None else _until(until),
        every=duration_of(every, "--every").total_seconds(),
        max_bytes=size_of(max_bytes, "--max-bytes"),
        headers=headers,
        key_column=keys,
        bad_records="column" if bad is BadRecords.column else "fail",
        fail_on_data_loss=fail_on_data_loss,
        max_commit_age=None
        if max_commit_age is None
        else duration_of(max_commit_age, "--max-commit-age").total_seconds(),
    )
    if dry_run:
        _show_plan(made)
        return
    if serving is None:
        _run(made)
        return
    address, port = serving
    if find_spec("prometheus_client") is not None:
        from monedula import prometheus

        prometheus.watch(made)
    with HealthServer(made, port, address=address) as server:
        say(f"its health is at http://{address}:{server.port}/health")
        _run(made)


@administration("land check")
def check(
    connection: Connection,
    target: Table,
    topic: Annotated[str, Option("--topic", help="The topic.", autocompletion=complete_topics)],
    format_: OfFormat = None,
    catalog: Catalog = None,
    job: Job = None,
    as_json: AsJson = False,
    storage_option: StoreOptions = None,
) -> None:
    """Look for offsets that a table has twice, or lacks.

    What the table lacks is looked up in the log. The exit code is 1 if a record is repeated or missing.

    Examples:
        monedula land orders ./lake/orders --until now && monedula land check ./lake/orders --topic orders
    """
    from monedula.landing.check import check as compare

    found = compare(settings_of(*connection), topic, _target(format_, target, catalog, storage_option, None), job=job)
    show(
        ("partition", "rows", "from", "to", "repeated", "missing", "unknown"),
        [
            (
                number,
                each.rows,
                each.start,
                each.end,
                *(_ranges(ranges) for ranges in (each.repeated, each.missing, each.unknown)),
            )
            for (_, number), each in found.partitions.items()
        ],
        as_json,
    )
    if not found.ok:
        raise Failure("the table has records more than once, or lacks some")


@command("land compact")
def compact(
    target: DeltaTable,
    target_bytes: Annotated[
        str, Option("--target-size", metavar="SIZE", help="About how large files become.")
    ] = "128MB",
    storage_option: StoreOptions = None,
) -> None:
    """Write the small files of a table of Delta together.

    Jobs may go on meanwhile.

    Examples:
        monedula land orders ./lake/orders --until now && monedula land compact ./lake/orders
    """
    from monedula.landing.maintenance import compact as compacted

    table = _target(TableFormat.delta, target, None, storage_option, None)
    done = compacted(table, target_bytes=size_of(target_bytes, "--target-size"))
    conflicts = f", {counted(done.conflicts, 'conflict')}" if done.conflicts else ""
    sizes = f"{amount(done.removed_bytes)}B became {counted(done.added_files, 'file')} of {amount(done.added_bytes)}B"
    say(f"{counted(done.removed_files, 'file')} of {sizes}{conflicts}")


@command("land clean")
def clean(
    target: DeltaTable,
    older_than: Annotated[
        str,
        Option(
            "--older-than",
            metavar="TIME",
            help="Only files of this age: 7d. Not less than the table's retention.",
        ),
    ] = "7d",
    dry_run: DryRun = False,
    storage_option: StoreOptions = None,
) -> None:
    """Delete the files of a table of Delta that no version names.

    Those of versions within the table's retention are kept.

    Examples:
        monedula land orders ./lake/orders --until now && monedula land clean ./lake/orders --dry-run
    """
    from monedula.landing.maintenance import clean as cleaned

    age = duration_of(older_than, "--older-than").total_seconds()
    table = _target(TableFormat.delta, target, None, storage_option, None)
    paths = cleaned(table, older_than=age, dry_run=dry_run)
    for path in paths:
        print(path)
    done = "would be" if dry_run else "was" if len(paths) == 1 else "were"
    say(f"{counted(len(paths), 'file')} {done} deleted")


def _address(text: str) -> tuple[str, int]:
    address, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) >= 1 << 16:
        raise UsageError(f"--health-port {text}: expected a port, such as 8080, or 127.0.0.1:8080")
    return address.strip("[]") or "0.0.0.0", int(port)


def _start(text: str, topic: str) -> "Start":
    if "=" not in text:
        return place_of(text, "--from")
    starts: dict[tuple[str, int], Position] = {}
    for each in text.split(","):
        partition, _, where = each.partition("=")
        if not re.fullmatch(r"\d{1,9}", partition.strip()):
            raise UsageError(f"--from {text}: expected partitions and where they begin, such as 0=42,1=latest")
        starts[topic, int(partition)] = place_of(where.strip(), "--from")
    return starts


def _until(text: str) -> Until:
    place = "latest" if text == "now" else place_of(text, "--until")
    if isinstance(place, int) or place == "earliest":
        raise UsageError(f"--until {text}: expected now, or a time")
    return place


def _target(
    form: TableFormat | None,
    path: str,
    catalog: str | None,
    options: list[str] | None,
    partition_by: str | None,
    upsert: list[str] | None = None,
) -> Any:
    """The table that the options name."""
    form = form or (TableFormat.delta if catalog is None else TableFormat.iceberg)
    require("pyarrow", "arrow", f"--format {form}")
    given = dict(pair(text, "--storage-option") for text in options or ())
    for name in given:
        if SECRET_OPTION.search(name.lower()):
            raise UsageError(
                f"--storage-option {name}: everyone on this machine can read the arguments of a command. Give it as "
                "an environment variable, or in pyiceberg's configuration"
            )
    if form is TableFormat.delta:
        if catalog is not None:
            raise UsageError("--catalog is for --format iceberg")
        require("deltalake", "delta", f"--format {form}")
        from monedula.landing.delta import Delta

        where = path if "://" in path else Path(path)
        return Delta(where, partition_by=partition_by, upsert=upsert, storage_options=given)
    if upsert:
        raise UsageError("--upsert is for --format delta; for Iceberg, Spark's MERGE INTO replaces rows")
    require("pyiceberg", "iceberg", f"--format {form}")
    from monedula.landing.iceberg import Iceberg

    if catalog is not None and PASSWORD_IN_ADDRESS.search(catalog):
        raise UsageError("--catalog: everyone on this machine can read a password in it; name one of pyiceberg's file")
    if catalog is not None and "://" in catalog:
        return Iceberg(path, catalog={"uri": catalog, **given}, partition_by=partition_by)
    if given:
        raise UsageError("--storage-option goes with --catalog URI; a catalog by its name has its options in a file")
    return Iceberg(path, catalog=catalog or "default", partition_by=partition_by)


PASSWORD_IN_ADDRESS = re.compile(r"://[^/?#@]*:[^/?#@]*@|^https?://[^/?#]*@|[?&][^=&]*(?:password|token|secret)[^=&]*=")
SECRET_OPTION = re.compile(
    r"(?:secret|passw|token|credential|signature|authorization|(?:^|[_.-])sas(?:[_.-]|$)|connection.string"
    r"|(?:account|private|master|sas|client).?key)(?!.*(?:ur[il]|endpoint|provider|file|path)$)"
)
"""Names of options of stores and catalogs that are not to be among the arguments of a command."""


def _decoder(
    value: Decode | None,
    schema: Schema,
    bad: BadRecords,
    dead_letter: str | None,
    settings: dict[str, str],
    table: Any,
    job: str | None,
    key_column: str | None,
    unwrap: Unwrap | None,
) -> Typed | None:
    if unwrap is not None and value is None:
        raise UsageError("--unwrap is about decoded values; add --value json")
    if value is None and (dead_letter is not None or bad is not BadRecords.fail):
        raise UsageError("--bad and --dead-letter are about values that cannot be decoded; add --value json")
    if dead_letter is not None and bad is not BadRecords.fail:
        raise UsageError("--dead-letter and --bad say two things about bad values; give one of them")
    if value is None and any((schema.given, schema.message, schema.subject, schema.framing, schema.schemas)):
        raise UsageError(
            "--schema, --message, --subject, --framing and --schemas say how values are decoded; "
            "add --value json, avro or protobuf"
        )
    if value is Decode.json and schema.given is None and schema.subject is None and not schema.has_registry:
        if unwrap is not None:
            raise UsageError("--unwrap with --value json needs --schema: the fields of the rows")
        made: Typed | None = _inferred(settings, schema.topics[0], table, job, key_column)
    else:
        kept = bad.value if bad in (BadRecords.null, BadRecords.drop) else None
        # The options of consume say how values are read; columns are made of their fields here.
        made = decoder(value, schema, None if kept is None else Bad(kept), False, Format.parquet)
    if made is None or dead_letter is None:
        return made
    return made.changed(dead_letter=dead_letter)


def _inferred(settings: dict[str, str], topic: str, table: Any, job: str | None, key_column: str | None) -> Typed:
    """JSON with the fields that the table has, and those that some of the records have."""
    import pyarrow as pa

    from monedula.formats.schemas.ddl import ddl_of
    from monedula.landing.columns import is_own
    from monedula.reading.schema_inference import infer

    inferred = infer(settings, topic)
    opened = table._table(job or topic)
    known = (
        {field.name: field for field in opened.columns() if not is_own(field.name, key_column)} if opened.open() else {}
    )
    new = [field for field in inferred.schema if field.name not in known]
    sources = [
        *(["the table"] if known else []),
        *([f"{inferred.records} records: {ddl_of(pa.schema(new))}"] if new or not known else []),
    ]
    say(f"without --schema its fields are those of {', and of '.join(sources)}")
    return Json(pa.schema([*known.values(), *new]))


def _show_plan(job: Any) -> None:
    plan = job.plan()
    added = dict.fromkeys(plan.new_columns, "new table" if plan.is_new else "new column")
    show(("column", "type", "change"), [(each.name, str(each.type), added.get(each.name, "")) for each in plan.schema])
    partitions = counted(len(plan.ranges), "partition")
    about = f", about {amount(plan.size)}B in {counted(plan.files, 'file')}" if plan.files else ""
    say(f"{plan.offsets:,} offsets of {partitions} would be read{about}; nothing was changed")


def _run(job: Any) -> None:
    ended: list[int] = []

    def end(number: int, _frame: object) -> None:
        if ended:
            raise Stopped(number)
        ended.append(number)
        say("committing what is there; again to end without")
        job.stop()

    with handled(end, signal.SIGINT, signal.SIGTERM), Bar("landing") as bar:
        job.start()
        result = None
        while result is None:
            result = job.wait(_LOOK_SECONDS)
            figures = job.metrics()
            done = int(figures["landing_rows"] + figures["landing_pending_rows"])
            bar.count(done - bar.records, int(figures["landing_bytes"]) - bar.bytes)
            bar.at(done, done + _behind(job))
    repeats = f", {counted(result.conflicts, 'conflict')}" if result.conflicts else ""
    bad = f", {counted(result.bad_records, 'bad record')}" if result.bad_records else ""
    written = ", ".join(counted(*each) for each in ((result.files, "file"), (result.commits, "commit")))
    say(f"{counted(result.rows, 'row')}: {written}{repeats}{bad}")
    if ended:
        raise Stopped(ended[0])


def _say_committed(commit: "LandingCommit") -> None:
    if commit.rows:
        say(f"version {commit.version}: {counted(commit.rows, 'row')} in {counted(commit.files, 'file')}")


def _behind(job: Any) -> int:
    with suppress(ClosedError):
        return sum(lag for lag in job.lag().values() if lag is not None)
    return 0


def _ranges(ranges: Any) -> str:
    return ", ".join(str(first) if end == first + 1 else f"{first}-{end - 1}" for first, end in ranges)


_UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}


def size_of(text: str, option: str) -> int:
    """The bytes of a size such as `128MB`."""
    found = re.fullmatch(r"(\d+)\s*([KMG]?I?B?)", text.strip().upper())
    unit = None if found is None else _UNITS.get(found[2] if found[2].endswith("B") or not found[2] else f"{found[2]}B")
    if found is None or unit is None or int(found[1]) == 0:
        raise UsageError(f"{option} {text}: expected a size, such as 128MB")
    return int(found[1]) * unit


HELP = "Land topics in tables: monedula land TOPIC TARGET."
COMMANDS = (("topic", land), ("check", check), ("compact", compact), ("clean", clean))
GROUP = LandGroup
