"""Names here for the options of kcat, of Kafka's own tools and of rpk, and the place of options."""

from typing import Any

_SERVERS = "-b HOST:PORT"
_SETTINGS = "-F FILE, with settings of the client as key=value"

_EVERYWHERE: dict[str, str] = {
    **dict.fromkeys(("--bootstrap-server", "--broker-list", "--brokers"), _SERVERS),
    **dict.fromkeys(("--command-config", "--consumer.config", "--producer.config", "--config-file"), _SETTINGS),
    **dict.fromkeys(("--consumer-property", "--producer-property"), "-X KEY=VALUE"),
}

_CONSUME: dict[str, str] = {
    **dict.fromkeys(("-t", "--topic"), "the topic stands alone: monedula consume orders"),
    "--topics": "the topics stand alone: monedula consume orders deliveries",
    **dict.fromkeys(
        ("--include", "--whitelist", "-r"), "a pattern stands alone, and begins with ^: monedula consume '^ord'"
    ),
    "-C": "leave it out: monedula consume orders",
    "-G": "-g GROUP",
    **dict.fromkeys(("-c", "--max-messages", "--num"), "-n COUNT"),
    "-e": "leave it out: without --follow the command ends with what is there now",
    "--from-beginning": "leave it out: reading begins at the first record, unless --from says otherwise",
    "--offset": "--from WHERE, such as --from latest",
    "-K": "-k SEPARATOR",
    "-J": "-f json",
    "--timeout-ms": "--follow --timeout SECONDS",
    "--isolation-level": "-X isolation.level=read_committed",
    **dict.fromkeys(
        ("--property", "--formatter-property"),
        "-k SEPARATOR prints keys, --headers headers; -f '%T %k %s\\n' prints what you name",
    ),
}

_PRODUCE: dict[str, str] = {
    **dict.fromkeys(("-t", "--topic"), "the topic stands alone: echo text | monedula produce orders"),
    "-P": "leave it out: echo text | monedula produce orders",
    "-K": "-k SEPARATOR",
    "-l": "-i FILE; each line is a record",
    "-D": "each line is a record; JSON lines (-f json) may have values with line breaks",
    "-Z": "--null TEXT: what stands for null",
    "-c": "head -n COUNT FILE | monedula produce orders",
    **dict.fromkeys(("--property", "--reader-property"), "-k SEPARATOR says what stands between key and value"),
    **dict.fromkeys(("--request-required-acks", "--acks"), "-X acks=1"),
    "--compression-codec": "-z CODEC",
    "--partitioner": "-X partitioner=NAME",
}

_BEHIND: dict[str, str] = {
    **dict.fromkeys(("-b", "--bootstrap-servers"), _SERVERS),
    **dict.fromkeys(("-X", "--setting"), "-X KEY=VALUE"),
    **dict.fromkeys(("-F", "--settings-file"), "-F FILE"),
}
"""Options that each command has."""

_VERBOSE = ("-v", "--verbose")
"""The option that stands before the command."""

_OPTIONS: dict[str, dict[str, str]] = {"monedula consume": _CONSUME, "monedula produce": _PRODUCE}

POSITIONS = ("beginning", "end", "start", "stored", "earliest", "latest")
"""Values of `-o` in other tools: it is an offset there and a file here."""


def advice_on(path: str, error: Any) -> str | None:
    """Advice for a part of a command line that only another tool has.

    Args:
        path: the command, such as `monedula consume`.
        error: click's error.
    """
    option = getattr(error, "option_name", None)
    if option is not None and hasattr(getattr(error.ctx, "command", None), "commands"):
        known = _EVERYWHERE.get(option) or _BEHIND.get(option)
        if known is None:
            return "the options of a command stand behind it"
        # The text behind a comma explains the option.
        return f"options stand behind the command: {_some_command(path, error.ctx)} {known.split(', ')[0]}"
    if option in _VERBOSE:
        return f"it stands before the command: monedula {option}{path.removeprefix('monedula')}"
    if option is not None:
        return _OPTIONS.get(path, {}).get(option) or _EVERYWHERE.get(option)
    if path == "monedula produce" and "extra argument" in str(error.format_message()):
        return "records come from standard input or a file: echo text | monedula produce orders"
    return None


def _some_command(path: str, context: Any) -> str:
    """A command of the group, with all words."""
    if path == "monedula":
        return "monedula topics list"
    return f"{path} {next(iter(context.command.commands))}"
