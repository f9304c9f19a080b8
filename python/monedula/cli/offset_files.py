"""Files of committed offsets: what `monedula groups export` writes and `groups import` reads.

CSV is that of Kafka's `kafka-consumer-groups --export`: `topic,partition,offset`, or with the group before these.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from monedula.cli.failures import Failure, UsageError
from monedula.cli.running import text_in
from monedula.types.partitions import TopicPartition

OffsetRow = tuple[str, str, int, int, str]
"""Group, topic, partition, offset, metadata."""

GroupedOffsets = dict[str, dict[TopicPartition, tuple[int, str]]]
"""Offset and metadata by partition, by group."""

_NAMES = ("group", "topic", "partition", "offset", "metadata")


class OffsetsFormat(StrEnum):
    """The format of a file of offsets."""

    csv = "csv"
    json = "json"


_ENDINGS = {
    ".csv": OffsetsFormat.csv,
    ".json": OffsetsFormat.json,
    ".jsonl": OffsetsFormat.json,
    ".ndjson": OffsetsFormat.json,
}


def offsets_format(chosen: OffsetsFormat | None, file: Path | None) -> OffsetsFormat:
    """The chosen format, or that of the file's name."""
    if chosen is not None:
        return chosen
    if file is None or file == Path("-"):
        return OffsetsFormat.csv
    if file.suffix.lower() not in _ENDINGS:
        raise UsageError(f"-o {file}: name the format with --format, or end the name in {', '.join(_ENDINGS)}")
    return _ENDINGS[file.suffix.lower()]


def written_offsets(rows: Sequence[OffsetRow], kind: OffsetsFormat) -> str:
    """Offsets as the text of a file."""
    if kind is OffsetsFormat.json:
        return "".join(json.dumps(dict(zip(_NAMES, row, strict=True)), ensure_ascii=False) + "\n" for row in rows)
    first = 1 if len({group for group, *_ in rows}) == 1 else 0
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(row[first:4] for row in rows)
    return text.getvalue()


def read_offsets(file: Path, group: str | None) -> GroupedOffsets:
    """The offsets in a file, or on standard input for `-`, by group.

    Args:
        file: the file; what it contains says whether it is CSV or JSON.
        group: the group that they are for, in place of the one in the file.
    """
    text = text_in(file)
    found: GroupedOffsets = {}
    for line, (named, topic, partition, offset, metadata) in _rows(file, text):
        at = TopicPartition(topic, partition)
        of_group = found.setdefault(named, {})
        if at in of_group:
            raise Failure(f"{file}, line {line}: {topic}-{partition} is there twice")
        of_group[at] = offset, metadata
    if not found:
        raise Failure(f"{file}: there are no offsets in it")
    if group is None and "" in found:
        raise Failure(f"{file} does not say of which group these offsets are: add --group")
    if group is None:
        return found
    if len(found) > 1:
        raise Failure(f"{file} has the offsets of {', '.join(found)}: --group is for a file of one group")
    return {group: next(iter(found.values()))}


def _rows(file: Path, text: str) -> Iterator[tuple[int, OffsetRow]]:
    if text.lstrip().startswith("{"):
        for line, row in enumerate(text.splitlines(), 1):
            if row.strip():
                yield line, _of_json(f"{file}, line {line}", row)
        return
    reader = csv.reader(io.StringIO(text))
    try:
        for cells in reader:
            # A heading is no row; nor is an empty line.
            if cells and [cell.strip() for cell in cells][-3:] != ["topic", "partition", "offset"]:
                yield reader.line_num, _of_cells(f"{file}, line {reader.line_num}", cells)
    except csv.Error as error:
        raise Failure(f"{file}, line {reader.line_num}: {error}") from None


def _of_json(where: str, text: str) -> OffsetRow:
    try:
        row = json.loads(text)
        return _checked(
            where, row.get("group", ""), row["topic"], row["partition"], row["offset"], row.get("metadata", "")
        )
    except (ValueError, KeyError, AttributeError, RecursionError):
        raise Failure(f'{where}: expected {{"group": .., "topic": .., "partition": .., "offset": ..}}') from None


def _of_cells(where: str, cells: list[str]) -> OffsetRow:
    group, topic, partition, offset = ["", *cells] if len(cells) == 3 else cells if len(cells) == 4 else [""] * 4
    if not all(re.fullmatch(r"\d{1,19}", number.strip()) for number in (partition, offset)):
        raise Failure(f"{where}: expected topic,partition,offset or group,topic,partition,offset")
    return _checked(where, group, topic, int(partition), int(offset), "")


def _checked(
    where: str, group: object, topic: object, partition: object, offset: object, metadata: object
) -> OffsetRow:
    texts = all(isinstance(text, str) for text in (group, topic, metadata))
    numbers = all(type(number) is int and number >= 0 for number in (partition, offset))
    if not texts or not numbers or not topic:
        raise Failure(f"{where}: expected texts for group, topic and metadata, and numbers from 0 for the others")
    assert isinstance(partition, int)
    assert isinstance(offset, int)
    return str(group), str(topic), partition, offset, str(metadata)
