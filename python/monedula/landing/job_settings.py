"""What a landing job makes of the settings and decoders that it is given."""

from monedula._wording import Wording
from monedula.config import RawSettings, config_keys
from monedula.errors import ArgumentError, DecodeError, with_hint
from monedula.formats._typed import Typed
from monedula.landing.job_consumer import JobConsumer


def kept(given: Typed | None, column: str, topics: list[str], keeps_bad: bool) -> Typed | None:
    """The decoder of a column, whose fields are not flattened by the core, and whose bad records are kept if wanted."""
    if not isinstance(given, Typed):
        return given
    made = given.of_topic(column, topics).changed(flatten=False)
    if made.dead_letter in topics:
        hint = "name another topic for them"
        raise ArgumentError("the job would read its dead letters again", argument="dead_letter", hint=hint)
    if not keeps_bad:
        return made
    if made.dead_letter is not None or made.drops or made._arguments["mode"] != "fail":
        raise ArgumentError("mode or dead_letter say another thing about bad records; give one", argument="bad_records")
    return made.changed(dead_letter=JobConsumer.KEPT)


def without_bad(given: Typed | None) -> Typed | None:
    """The decoder with records left out that it would fail at, or keep."""
    if not isinstance(given, Typed) or given._arguments["mode"] != "fail":
        return given
    return given.changed(mode="drop", dead_letter=None)


_BAD_RECORD = (
    'bad_records="column" keeps such records in the table, dead_letter= of its decoder writes them to a topic, and '
    'mode="drop" leaves them out'
)
_WORDING = Wording(
    {
        'With mode="null" such records are kept with nulls, with mode="drop" left out, with dead_letter= written to a '
        "topic. ": "",
        "Seek past it to go on": "",
    }
)


def bad_record(error: DecodeError) -> DecodeError:
    """The error of a record that cannot be decoded, with what a job can do about such records."""
    facts = vars(error).items()
    told = {name: value for name, value in facts if not name.startswith("_") and name not in ("hint", "reason")}
    message = with_hint(_WORDING.reason(error), _BAD_RECORD, is_sentence=False)
    return DecodeError(message, hint=f"`{_BAD_RECORD}`", reason=error.reason, **told)


def _names_of(setting: str) -> set[str]:
    return {setting, *(name for key in config_keys() if key.name == setting for name in key.aliases)}


def setting(raw: RawSettings, name: str) -> str | None:
    """The value of a setting, under whichever of its names it was given; `None` if it was not."""
    names = _names_of(name)
    return next((value for key, value in reversed(raw) if key.strip().replace("_", ".") in names), None)


def reset_start(raw: RawSettings) -> str:
    """Where `auto.offset.reset` has partitions begin; the beginning unless it is set."""
    told = (setting(raw, "auto.offset.reset") or "earliest").strip().lower()
    if told.startswith("by_duration:"):
        hint = "give start=datetime.now(timezone.utc) - timedelta(days=7)"
        raise ArgumentError(
            f"auto.offset.reset={told}: a job that begins later would begin elsewhere", argument="start", hint=hint
        )
    return told


def job_settings(raw: RawSettings, job: str) -> RawSettings:
    """The settings of the consumer: it commits nothing by itself, and never sets a position by itself."""
    own = {"auto.offset.reset": "none", "enable.auto.commit": "false"}
    if setting(raw, "group.id") is None:
        own["group.id"] = job
    return _replaced(committed_only(raw), own)


def committed_only(raw: RawSettings) -> RawSettings:
    """The settings under which records of aborted transactions are not read, unless they say otherwise."""
    is_told = setting(raw, "isolation.level") is not None
    return raw if is_told else _replaced(raw, {"isolation.level": "read_committed"})


def _replaced(raw: RawSettings, own: dict[str, str]) -> RawSettings:
    ruled = set().union(*(_names_of(name) for name in own))
    made = RawSettings([(key, value) for key, value in raw if key.strip().replace("_", ".") not in ruled])
    made.extend(own.items())
    made.token_source = raw.token_source
    return made
