"""The options of `monedula produce`."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from monedula.cli.encoding import Encode
from monedula.cli.sources import Input

Topic = Annotated[str | None, Argument(help="Where to; without it, what the data says in its field or column topic.")]
File = Annotated[Path | None, Option("-i", "--input", help="A file; standard input without it.")]
FormatName = Annotated[
    Input | None, Option("-f", "--format", help="By default what the file's name ends in, otherwise lines.")
]
Partition = Annotated[
    str | None,
    Option("-p", "--partition", help="This partition; else what the data says, if the topic has it, or the key."),
]
AnyPartition = Annotated[bool, Option("--any-partition", help="Do not heed the field or column partition of the data.")]
Key = Annotated[str | None, Option("--key", help="The key of records that have none of their own.")]
KeySeparator = Annotated[
    str | None, Option("-k", "--key-separator", help="In lines: what stands between key and value.")
]
Null = Annotated[str | None, Option("--null", metavar="TEXT", help="In lines: a key or value that is this is null.")]
Header = Annotated[
    list[str] | None, Option("-H", "--header", metavar="NAME=VALUE", help="A header of each. Repeatable.")
]
KeyColumn = Annotated[str | None, Option(help="In Arrow and Parquet: the column that is the key.")]
ValueColumn = Annotated[str | None, Option(help="The column that is the value.")]
Compression = Annotated[str | None, Option("-z", "--compression", help="none, gzip, snappy, lz4 or zstd.")]
Encoding = Annotated[
    Encode | None,
    Option(
        help="Encode values, which lines have as JSON, and Arrow and Parquet as columns. With --schema or --subject."
    ),
]
Schema = Annotated[
    str | None,
    Option(
        metavar="SCHEMA",
        help="Their fields: Avro's schema, Spark's DDL or a JSON Schema, or a file with one; of Protobuf a .proto file "
        "or one with descriptors. Registered, if the settings name a registry, as auto.register.schemas says.",
    ),
]
Message = Annotated[
    str | None,
    Option("--message", metavar="NAME", help="Of Protobuf: the message, as shop.Order, if there are several."),
]
Subject = Annotated[
    str | None,
    Option(
        metavar="SUBJECT",
        help="The subject of the registry of schema.registry.url: without --schema its latest version is written, by "
        "default that of the topic's, TOPIC-value.",
    ),
]
Flatten = Annotated[
    bool, Option("--flatten", help="In Arrow and Parquet: the columns are the fields, even one called value.")
]
KeyEncoding = Annotated[Encode | None, Option("--key-encode", help="Encode keys, as --encode does values.")]
KeySchema = Annotated[str | None, Option("--key-schema", metavar="SCHEMA", help="Of keys, as --schema.")]
KeyMessage = Annotated[str | None, Option("--key-message", metavar="NAME", help="Of keys, as --message.")]
KeySubject = Annotated[str | None, Option("--key-subject", metavar="SUBJECT", help="Of keys, as --subject.")]
