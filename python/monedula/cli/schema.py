"""`monedula schema`: the schema of a topic's JSON records."""

import json
import sys
from enum import StrEnum
from typing import Annotated

from typer import Argument, Option

from monedula.cli.administration import Connection, administration
from monedula.cli.completing import complete_topics
from monedula.cli.running import say
from monedula.cli.tables import show


class Form(StrEnum):
    """Form of a schema."""

    TABLE = "table"
    JSON = "json"
    DDL = "ddl"


@administration("schema infer", headings_behind="output")
def infer(
    connection: Connection,
    topic: Annotated[str, Argument(help="The topic.", autocompletion=complete_topics)],
    records: Annotated[
        int, Option("-n", "--records", min=1, help="How many offsets of each partition, half at each end.")
    ] = 1000,
    output: Annotated[Form, Option("-o", "--output", help="A table, Spark's JSON, or Spark's DDL.")] = Form.TABLE,
    keys: Annotated[bool, Option("--keys", help="Of the keys in place of the values.")] = False,
    primitives_as_string: Annotated[
        bool, Option("--primitives-as-string", help="Numbers and booleans are strings.")
    ] = False,
    prefers_decimal: Annotated[
        bool, Option("--prefers-decimal", help="Numbers are decimals if 38 digits hold them.")
    ] = False,
) -> None:
    """Infer the schema of JSON records, as Spark does. From the first and the last ones of each partition.

    Examples:
        monedula schema infer orders
        monedula schema infer orders -o ddl
        monedula schema infer orders -o json > orders.json
    """
    from monedula.cli.settings import settings_of
    from monedula.cli.topic_names import check_name
    from monedula.reading.schema_inference import infer

    check_name(topic, "; this command reads one topic")
    found = infer(
        settings_of(*connection),
        topic,
        records=records,
        of="key" if keys else "value",
        primitives_as_string=primitives_as_string,
        prefers_decimal=prefers_decimal,
    )
    if found.first_bad is not None:
        bad = found.first_bad
        say(
            f"{found.bad} of {found.records} records are no JSON objects; the first: {bad.topic}[{bad.partition}] at "
            f"offset {bad.offset}: {bad.reason}"
        )
    match output:
        case Form.TABLE:
            show(("field", "type"), found.fields())
        case Form.JSON:
            sys.stdout.write(json.dumps(found.json, ensure_ascii=False) + "\n")
        case Form.DDL:
            sys.stdout.write(found.ddl + "\n")


HELP = "Infer the schemas of JSON records."
COMMANDS = (("infer", infer),)
