"""The options of `monedula produce`."""

from pathlib import Path
from typing import Annotated

import typer

from monedula.cli.encoding import Encode
from monedula.cli.sources import Input

Topic = Annotated[
    str | None, typer.Argument(help="Where to; without it, what the data says in its field or column topic.")
]
File = Annotated[Path | None, typer.Option("-i", "--input", help="A file; standard input without it.")]
FormatName = Annotated[
    Input | None, typer.Option("-f", "--format", help="By default what the file's name ends in, otherwise lines.")
]
Partition = Annotated[
    str | None,
    typer.Option("-p", "--partition", help="This partition; else what the data says, if the topic has it, or the key."),
]
AnyPartition = Annotated[
    bool, typer.Option("--any-partition", help="Do not heed the field or column partition of the data.")
]
Key = Annotated[str | None, typer.Option("--key", help="The key of records that have none of their own.")]
KeySeparator = Annotated[
    str | None, typer.Option("-k", "--key-separator", help="In lines: what stands between key and value.")
]
Null = Annotated[
    str | None, typer.Option("--null", metavar="TEXT", help="In lines: a key or value that is this is null.")
]
Header = Annotated[
    list[str] | None, typer.Option("-H", "--header", metavar="NAME=VALUE", help="A header of each. Repeatable.")
]
KeyColumn = Annotated[str | None, typer.Option(help="In Arrow and Parquet: the column that is the key.")]
ValueColumn = Annotated[str | None, typer.Option(help="The column that is the value.")]
Compression = Annotated[str | None, typer.Option("-z", "--compression", help="none, gzip, snappy, lz4 or zstd.")]
Encoding = Annotated[
    Encode | None,
    typer.Option(
        help="Encode values, which lines have as JSON, and Arrow and Parquet as columns. With --schema or --subject."
    ),
]
Schema = Annotated[
    str | None,
    typer.Option(
        metavar="SCHEMA",
        help="Their fields: Avro's schema, Spark's DDL or a JSON Schema, or a file with one; of Protobuf a .proto file "
        "or one with descriptors. Registered, if the settings name a registry, as auto.register.schemas says.",
    ),
]
Message = Annotated[
    str | None,
    typer.Option("--message", metavar="NAME", help="Of Protobuf: the message, as shop.Order, if there are several."),
]
Subject = Annotated[
    str | None,
    typer.Option(
        metavar="SUBJECT",
        help="The subject of the registry of schema.registry.url: without --schema its latest version is written, by "
        "default that of the topic's, TOPIC-value.",
    ),
]
Flatten = Annotated[
    bool, typer.Option("--flatten", help="In Arrow and Parquet: the columns are the fields, even one called value.")
]
KeyEncoding = Annotated[Encode | None, typer.Option("--key-encode", help="Encode keys, as --encode does values.")]
KeySchema = Annotated[str | None, typer.Option("--key-schema", metavar="SCHEMA", help="Of keys, as --schema.")]
KeyMessage = Annotated[str | None, typer.Option("--key-message", metavar="NAME", help="Of keys, as --message.")]
KeySubject = Annotated[str | None, typer.Option("--key-subject", metavar="SUBJECT", help="Of keys, as --subject.")]
