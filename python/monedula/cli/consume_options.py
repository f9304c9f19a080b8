"""The options of `monedula consume`."""

from pathlib import Path
from typing import Annotated

from typer import Option

from monedula.cli.completing import complete_groups
from monedula.cli.conditions import SYNTAX as CONDITIONS
from monedula.cli.decoding import Bad, Decode, Framing
from monedula.cli.filters import SYNTAX
from monedula.cli.formats import Format
from monedula.cli.rendering import Form
from monedula.cli.templates import LETTERS

Start = Annotated[
    str,
    Option(
        "--from",
        metavar="WHERE",
        help="First record: an offset, -N for the last N of each partition, earliest, latest, or a time.",
    ),
]
End = Annotated[
    str | None,
    Option("--to", metavar="WHERE", help="First record not read any more, as --from. By default the end as of now."),
]
Follow = Annotated[bool, Option("--follow", help="Go on with what comes, until Ctrl-C.")]
Group = Annotated[
    str | None,
    Option(
        "-g",
        "--group",
        help="Read as a member of this consumer group, commit what was written, until Ctrl-C.",
        autocompletion=complete_groups,
    ),
]
MaxRows = Annotated[
    int | None, Option("-n", "--max-rows", min=0, help="End after this many records, of all partitions.")
]
Timeout = Annotated[
    float | None, Option(min=0, metavar="SECONDS", help="With --follow or --group: end after so long without a record.")
]
FormatName = Annotated[
    str | None,
    Option(
        "-f",
        "--format",
        help=f"{', '.join(Format)}; or a text such as '%t %p %o: %k %s\\n', with "
        f"{', '.join(f'%{letter} {meaning}' for letter, meaning in LETTERS.items())}. "
        "By default what the file's name ends in, otherwise text.",
    ),
]
Output = Annotated[
    Path | None, Option("-o", "--output", help="A file, whose name says its format; standard output without it.")
]
Keys = Annotated[list[str] | None, Option("--key", metavar="CONDITION", help=f"Only such keys: {SYNTAX}. Repeatable.")]
Values = Annotated[
    list[str] | None, Option("--value", metavar="CONDITION", help="Only such values, as --key. Repeatable.")
]
WithHeader = Annotated[
    list[str] | None,
    Option(
        "--header",
        metavar="NAME[CONDITION]",
        help="Only records with this header, whose value is as --key says: source=web. Repeatable.",
    ),
]
Conditions = Annotated[
    list[str] | None,
    Option(
        "--where",
        metavar="CONDITION",
        help=f"Only records that meet this before they are decoded: {CONDITIONS}. Repeatable.",
    ),
]
KeySeparator = Annotated[
    str | None, Option("-k", "--key-separator", help="In text: put the key and this before each value.")
]
KeyAs = Annotated[Form, Option(help="How keys are written in text and JSON.")]
ValueAs = Annotated[
    Form, Option(help="How values are written in text and JSON; json puts them into the line as they are.")
]
Null = Annotated[str, Option(metavar="TEXT", help="In text: stands for a null key or value.")]
Headers = Annotated[bool, Option("--headers", help="Headers too.")]
Columns = Annotated[str | None, Option(metavar="NAME,...", help="Only these columns, in JSON, CSV, Arrow and Parquet.")]
Decoding = Annotated[
    Decode | None,
    Option(
        help="Decode values: to typed columns in Arrow and Parquet, to JSON in the other formats. With --schema or "
        "--subject."
    ),
]
DecodedSchema = Annotated[
    str | None,
    Option(
        metavar="SCHEMA",
        help="Their fields: Spark's DDL, a JSON Schema or Avro's, or a file with one; of Protobuf a .proto file, or "
        "one with descriptors.",
    ),
]
DecodedMessage = Annotated[
    str | None,
    Option("--message", metavar="NAME", help="Of Protobuf: the message, as shop.Order, if the schema has several."),
]
DecodedSubject = Annotated[
    str | None,
    Option(
        metavar="SUBJECT",
        help="The subject of the registry of schema.registry.url whose latest version has the fields; by default the "
        "topic's, TOPIC-value. Of JSON, values have Confluent's frame then.",
    ),
]
DecodedFraming = Annotated[
    Framing | None,
    Option(
        "--framing",
        help="What stands before values and names their schema; by default what --schemas and the settings' registry "
        "say.",
    ),
]
WritersSchemas = Annotated[
    str | None,
    Option(
        metavar="JSON",
        help="The schemas that values were written with, by their ids or GUIDs: "
        """'{"7": "old.avsc", "9": "new.avsc"}', or a file with that.""",
    ),
]
BadValues = Annotated[
    Bad | None, Option(help="Values that cannot be decoded end the command, become nulls, or are left out.")
]
Flatten = Annotated[bool, Option("--flatten", help="In Arrow and Parquet: the fields as columns beside Kafka's.")]
