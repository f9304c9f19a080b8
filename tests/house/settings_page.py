"""Writes docs/settings.md, the page of all settings, from the client's own table of them.

python -m tests.house.settings_page
"""

import re
from pathlib import Path

import monedula
from monedula import ConfigKey

PAGE = Path(__file__).resolve().parents[2] / "docs/settings.md"

HEAD = """\
# Settings

This page is for everyone who configures a client. It lists every setting of every client, with its type, unit and
default. It is written from the client's own table, which `monedula.config_keys()` returns.

A setting has the name that Kafka's Java client gives it, if that client has the setting. The names after "also" are
accepted as well; most of them are librdkafka's. If such a name has another unit, the unit stands after it.

Give settings as a dict with dots, or as keywords with underscores: `Consumer({"fetch.max.bytes": 1_000_000})` and
`Consumer(fetch_max_bytes=1_000_000)` are the same; `read`, `scan` and `dataset` take the dict alone. An unknown
name is a `ConfigError`, which names the nearest known one. A client that does not use a setting accepts it and logs a
warning.

Run `python -m tests.house.settings_page` in a checkout to write this page anew.
"""

SECTIONS = {
    "Connections, time-outs and retries": "Of every client.",
    "Reading": "Of consumers and of `monedula.read`.",
    "Consumer groups": "Of consumers with a `group.id`. [Consumer groups](groups.md) explains them.",
    "Share groups": (
        "Of consumers of share groups, which also have those of reading and the `group.id`. "
        "[Share groups](share-groups.md) explains them."
    ),
    "Schema registry": (
        "For `monedula.Avro`: consumers and `monedula.read` ask for schemas, producers register them. "
        "[Typed columns](typed-columns.md#registry) explains them."
    ),
    "Sending": "Of producers. [Producers](producer.md) explains them.",
    "Administration": "Of `Admin` and `AsyncAdmin`.",
    "TLS": "Of every client. [Security](security.md) explains them.",
    "SASL": "Of every client: how it logs in. [Security](security.md) explains them.",
}
ROLES = {
    "all": "Connections, time-outs and retries",
    "producer": "Sending",
    "admin": "Administration",
    "share consumer": "Share groups",
}
OF_GROUPS = re.compile(r"^group\.|assignment|rebalance|moves|round\.|session|heartbeat|max\.poll|auto\.commit|^exclude")
UNITS = {"ms": "ms", "seconds": "s", "bytes": "bytes", "kbytes": "KiB"}
# Integers whose name does not say what they count.
UNITS_BY_NAME = {
    "batch.size": "bytes",
    "buffer.memory": "bytes",
    "max.request.size": "bytes",
    "sasl.kerberos.min.time.before.relogin": "ms",
    "auto.commit.records": "records",
    "max.poll.records": "records",
    "schema.registry.max.retries": "",
    "max.moves.per.round": "partitions",
    "decode.threads": "threads",
    "retry.backoff.factor": "",
    "retries": "",
    "max.in.flight.requests.per.connection": "requests",
    "compression.level": "",
    "compression.gzip.level": "",
    "compression.lz4.level": "",
    "compression.zstd.level": "",
}


def section_of(key: ConfigKey) -> str:
    """The heading under which a setting stands."""
    if key.name.startswith(("ssl.", "enable.ssl.", "security.")):
        return "TLS"
    if key.name.startswith(("sasl.", "https.")):
        return "SASL"
    of_registry = (".schemas", ".name.strategy", "latest.version")
    if key.name.startswith(("schema.registry.", "subject.name.")) or key.name.endswith(of_registry):
        return "Schema registry"
    if key.role == "consumer":
        return "Consumer groups" if OF_GROUPS.search(key.name) else "Reading"
    return ROLES[key.role]


def unit_of(name: str) -> str | None:
    """The unit of a number, `""` if it has none, or `None` if that is not known."""
    return UNITS_BY_NAME.get(name, UNITS.get(name.rpartition(".")[2]))


def is_number(key: ConfigKey) -> bool:
    """Whether the values are whole numbers between bounds."""
    return re.fullmatch(r"-?\d+ to -?\d+", key.values) is not None


def type_of(key: ConfigKey) -> str:
    """The type, with its unit and bounds, or the values to choose from."""
    if is_number(key):
        unit = unit_of(key.name)
        return ", ".join(filter(None, ("integer", unit, key.values)))
    if key.values == "true or false":
        return "boolean"
    if key.values in ("text", "secret"):
        return key.values
    return "one of " + ", ".join(f"`{choice}`" for choice in key.values.split(", ") if choice)


def default_of(key: ConfigKey) -> str:
    """The default, readable."""
    if key.default is None:
        return "required"
    if not key.default:
        return "none"
    return f"`{key.default}`" + (readable(int(key.default), unit_of(key.name)) if is_number(key) else "")


def readable(number: int, unit: str | None) -> str:
    """A large number in a larger unit, in brackets."""
    if unit == "bytes":
        steps = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
    elif unit == "ms":
        steps = [(3_600_000, "h"), (60_000, "min"), (1000, "s")]
    else:
        steps = []
    return next(
        (f" ({number // size}&nbsp;{name})" for size, name in steps if number >= size and not number % size), ""
    )


def names_of(key: ConfigKey) -> str:
    """The name and the aliases."""
    unit = unit_of(key.name) if is_number(key) else None
    others = [
        f"`{alias}`" + (f" ({its})" if unit and (its := unit_of(alias) or unit) != unit else "")
        for alias in key.aliases
    ]
    return f"`{key.name}`" + (f"<br>also {', '.join(others)}" if others else "")


def meaning_of(key: ConfigKey, names: set[str]) -> str:
    """The description, with the names of settings as code."""
    text = re.sub(r"\s+", " ", key.description).replace("|", "\\|")
    text = re.sub(r", (ms|s)(?=$| ?[(.,:;])", "", text) if is_number(key) else text
    return re.sub(
        r"([a-z]\w*(?:\.\w+)+)(=[\w-]+)?", lambda found: f"`{found[0]}`" if found[1] in names else found[0], text
    )


def rendered() -> str:
    """The whole page."""
    keys = monedula.config_keys()
    names = {name for key in keys for name in (key.name, *key.aliases) if "." in name}
    page = [HEAD]
    for section, words in SECTIONS.items():
        rows = [
            f"| {names_of(key)} | {type_of(key)} | {default_of(key)} | {meaning_of(key, names)} |"
            for key in keys
            if section_of(key) == section
        ]
        if rows:
            page += [
                f"## {section}\n",
                f"{words}\n",
                "| setting | type | default | meaning |",
                "|---|---|---|---|",
                *rows,
                "",
            ]
    return "\n".join(page)


if __name__ == "__main__":
    PAGE.write_text(rendered())
