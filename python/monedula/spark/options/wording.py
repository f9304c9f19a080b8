"""The words of Spark's options for what errors of the formats say about Python's arguments."""

from monedula._wording import Wording
from monedula.errors import ArgumentError, ConfigError

_PHRASES = {
    "schema.registry.url": "kafka.schema.registry.url",
    "the setting schema.registry.url": "kafka.schema.registry.url",
    "the files that are imported must be given, too": "give descriptors with the files that are imported: "
    "protoc --include_imports --descriptor_set_out=order.pb",
    "that of a file is Path(...).read_text()": "give the text of the file",
    "send_batch(data, topic, ...)": "the option topic, or {column}.subject",
    "key.subject.name.strategy": "kafka.key.subject.name.strategy",
    "value.subject.name.strategy": "kafka.value.subject.name.strategy",
    "recursiveFieldMaxDepth": "{column}.recursiveFieldMaxDepth",
    "recursive.fields.max.depth": "{column}.recursive.fields.max.depth",
    ": Json(schema)": " by {column}.schema",
    "no row was sent": "",
    # The option of the mode says how to go on, and a task has no other offsets.
    'With mode="null" such records are kept with nulls, with mode="drop" left out. ': "",
    "A read that starts at {next_offset} goes on behind it": "",
}


class OptionWording(Wording):
    """The words for a column, `key` or `value`."""

    def __init__(self, column: str) -> None:
        super().__init__({part: phrase.replace("{column}", column) for part, phrase in _PHRASES.items()})
        self._column = column

    def argument(self, name: str, value: str | None) -> str:
        """An argument as the option of the column."""
        return f"{self._column}.{name}{'' if value is None else f'={value}'}"

    def refused(self, error: ArgumentError, default: str) -> ConfigError:
        """The error of the option that the argument is here.

        Args:
            error: says what is wrong.
            default: the option that is at fault if the error names no other one.
        """
        argument, _, part = (error.argument or "").partition("[")
        suffix = error.key if argument == "options" else argument if argument in ("schemas", "framing") else default
        name = f"{self._column}.{suffix}"
        given = "" if error.value is None else f" is {error.value}"
        return ConfigError(f"option '{name}'{given}: {f'[{part}: ' if part else ''}{self.reason(error)}", key=name)
