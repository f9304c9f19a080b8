"""Writes docs/migration/settings.md, the page of settings in both directions, from the client's own tables.

python -m tests.house.migration_settings_page
"""

import re
from collections.abc import Mapping
from pathlib import Path

import monedula
from monedula._migration_hints.settings import PREFIXES, SETTINGS

PAGE = Path(__file__).resolve().parents[2] / "docs/migration/settings.md"

HEAD = """\
# Settings of other clients

This page is for people who bring their settings along. Most settings have the names that they have in Java's client or
in librdkafka: [Settings](../settings.md) lists them with both names. Keywords of aiokafka and kafka-python are the same
names with underscores, such as `group_id`. This page has the others, in both directions. [Coming from other
clients](../migration.md) says what is different besides settings.

Run `python -m tests.house.migration_settings_page` in a checkout to write this page anew.

## From there to here

Each of these is a `ConfigError` that says the same. Most of them can be left out, because the client does by itself
what they are for.

| there | here |
|---|---|
"""

BACK = """
## From here to there

Settings that only monedula has. Leave them out when you go back; the second column has what comes nearest.

| here | there |
|---|---|
"""

OURS = {
    "auto.commit.records": "`auto.commit.interval.ms`: commits by time alone",
    "bootstrap.timeout.ms": "`bootstrap.resolve.timeout.ms` of Java, for the names alone",
    "decode.threads": "",
    "group.initial.rebalance.delay.ms": "the broker's setting of this name",
    "max.decompressed.batch.bytes": "",
    "max.moves.per.round": "",
    "retry.backoff.factor": "always 2",
    "round.interval.ms": "",
    "sasl.oauthbearer.allow.plain.http": "`org.apache.kafka.sasl.oauthbearer.allowed.urls`, a system property of Java",
    "sasl.oauthbearer.token.provider": (
        "`oauth_cb` of confluent-kafka, `sasl_oauth_token_provider` of aiokafka and kafka-python, "
        "`sasl.login.callback.handler.class` of Java"
    ),
    "scheduled.rebalance.max.delay.ms": "Kafka Connect's setting of this name",
    "share.renew.max.ms": "",
}
"""Settings that neither Java's client nor librdkafka has; `tests/migration_hints/test_settings.py` compares."""


def spelled(name: str) -> str:
    """The name as its client spells it: callbacks have underscores."""
    return name.replace(".", "_") if name.endswith(".cb") or name.startswith("on.") else name


def as_code(text: str) -> str:
    """Advice with calls and names of settings as code."""
    names = {name for key in monedula.config_keys() for name in (key.name, *key.aliases) if "." in name}
    call = r"[\w.]*\w\((?:[^()]|\([^()]*\))*\)(?:\[[^\]]*\])?(?:\.\w+(?:\((?:[^()]|\([^()]*\))*\))?)*"
    setting = r"[a-z]\w*(?:\.\w+)+(?:=[\w-]+)?"
    keyword = r"\b\w+=\w+(?:\((?:[^()]*)\))?"

    def marked(found: re.Match[str]) -> str:
        whole = found[0]
        is_code = "(" in whole or "=" in whole or whole.split("=")[0] in names
        return f"`{whole}`" if is_code else whole

    return re.sub(f"{call}|{setting}|{keyword}", marked, text).replace("|", "\\|")


def rendered() -> str:
    """The whole page."""
    theirs: Mapping[str, str] = {**SETTINGS, **{f"{prefix}...": told for prefix, told in PREFIXES.items()}}
    rows = [f"| `{spelled(name)}` | {as_code(theirs[name])} |\n" for name in sorted(theirs)]
    back = [f"| `{name}` | {told or 'nothing'} |\n" for name, told in sorted(OURS.items())]
    return "".join([HEAD, *rows, BACK, *back])


if __name__ == "__main__":
    PAGE.write_text(rendered())
