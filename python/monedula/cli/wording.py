"""The words of the command line for what errors say about Python's arguments and settings."""

from monedula._wording import Wording

_REPEAT = "The same command asks again"

_PHRASES = {
    "schema.registry.url": "-X schema.registry.url",
    "the setting schema.registry.url": "-X schema.registry.url",
    "the files that are imported must be given, too": "give descriptors with the files that are imported: "
    "protoc --include_imports --descriptor_set_out=order.pb",
    "give it as str, as of read_text()": "the name of a file with a text, and not descriptors, ends in .proto",
    "that of a file is Path(...).read_text()": "nor is there a file of that name",
    "send_batch(data, topic, ...)": "the topic as an argument",
    "key.subject.name.strategy": "-X key.subject.name.strategy",
    "value.subject.name.strategy": "-X value.subject.name.strategy",
    "columns=['value', ...]": "--columns value",
    ": Json(schema)": " by --schema",
    "the read a start and an end": "a --from and a --to",
    "A read that starts at {next_offset} goes on behind it": "consume {topic} -p {partition} --from {next_offset} goes "
    "on behind it",
    "Seek to where the new topic is to be read from, for example its beginning": "Read the new one from its beginning",
    "Seek to": "consume {topic} -p {partition} --from",
    "to read what": "reads what",
    "Seek to an offset in it": "Reset the group's offsets",
    "Read again to ask again": _REPEAT,
    "A poll a second later asks again; the position stays at the record": _REPEAT,
    "Seek past it to go on": "",
    # The command names --bad itself.
    'With mode="null" such records are kept with nulls, with mode="drop" left out. ': "",
    'With mode="null" such records are kept with nulls, with mode="drop" left out, with dead_letter= written to a '
    "topic. ": "",
    ", or seek past the batch": "",
    "no row was sent": "",
    "start": "--from",
    "job": "--job",
    "partition_by": "--partition-by",
    "fail_on_data_loss=False": "--no-fail-on-data-loss",
    "key_column='_key'": "--key-column _key",
    "bad_records='column'": "--bad column",
    "value=monedula.Json(...)": "--value json and --schema",
    "upsert": "--upsert",
    "start={('orders', 0): 42}": "--from 0=42,1=latest",
    "warehouse": "--storage-option warehouse=file:///lake, or the setting of pyiceberg's file,",
    "key_column=None": "--key-column none",
    'bad_records="column" keeps such records in the table, dead_letter= of its decoder writes them to a topic, and '
    'mode="drop" leaves them out': "--bad column keeps such records in the table, --dead-letter TOPIC writes them to a "
    "topic, and --bad drop leaves them out",
}

_OPTIONS = (
    "schema",
    "message",
    "subject",
    "schemas",
    "framing",
    "columns",
    "flatten",
    "partition_by",
    "upsert",
    "older_than",
    "until",
    "every",
    "unwrap",
    "dead_letter",
)
"""The arguments that are options of the same name."""


class CommandWording(Wording):
    """The options of `consume` and `produce`, for values by default."""

    def __init__(self, column: str = "value") -> None:
        super().__init__(_PHRASES)
        self._column = column

    def argument(self, name: str, value: str | None) -> str:
        """An argument as an option, with its value if that is one of the few words that it takes."""
        known = name.partition("[")[0]
        if known == "value":
            return "--schema"
        if known == "key":
            return "--key-encode"
        if known not in _OPTIONS:
            return f"{name}={value or ''}"
        prefix = "--key-" if self._column == "key" and known in ("schema", "message", "subject") else "--"
        word = "" if value is None else f" {value if '(' in value else value.strip(chr(39))}"
        word = word if known in ("framing", "partition_by") else ""
        return f"{prefix}{name.replace('_', '-')}{word}"
