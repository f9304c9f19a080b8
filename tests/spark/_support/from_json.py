"""JSON texts for the comparison with Spark's `from_json`, sound, strange and broken ones; and the known differences."""

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

DDL = """
    boolean boolean, tiny tinyint, small smallint, int int, long bigint, float float, double double,
    decimal decimal(10,2), wide decimal(38,10), text string, binary binary, date date, timestamp timestamp,
    local timestamp_ntz, list array<int>, structs array<struct<a:int,b:string>>,
    nested struct<a:int,b:struct<c:double,d:array<array<bigint>>>>, map map<string,int>,
    maps map<string,struct<a:date,b:boolean>>, _corrupt_record string
"""

_INTEGERS = [
    "0",
    "1",
    "-1",
    "-0",
    "7",
    "127",
    "-128",
    "-129",
    "255",
    "256",
    "32767",
    "32768",
    "-32769",
    "2147483647",
    "-2147483648",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "123456789012345678901234567890",
]
_FLOATS = [
    "0.0",
    "-0.0",
    "1.5",
    "1e2",
    "1E-5",
    "0.1",
    "1e400",
    "-1e400",
    "1e-400",
    "4.9e-325",
    "3.4028236e38",
    "16777217",
    "1.005",
    "-1.005",
    "0.005",
    "99999999.99",
    "99999999.995",
    "123.4567e1",
    "1234567890123456789012345678.5",
    "NaN",
    "Infinity",
    "-Infinity",
    "+Infinity",
    "-INF",
    "+INF",
]
_NO_NUMBERS = ["01", "1.", ".5", "+1", "1e", "1e+", "--", "-", "1_0", "nan", "INF", "-NaN", "0x10"]
_DATES = [
    "2020-01-02",
    "2020-1-2",
    "2020",
    "2020-01",
    "20200",
    "+2020-01-02",
    "-2020-01-02",
    "2020-13-01",
    "2020-02-30",
    "2021-02-29",
    "2020-02-29",
    "100",
    "-5",
    "+7",
    "1234567",
    "12345678",
    "0000-01-01",
    "1500-01-01",
    "2020-001-01",
    "99999999999",
    "5881580-07-11",
    "5881580-07-12",
    "epoch",
    "today",
    "2020/01/02",
    "2020-01-02GMT",
    "1900-02-29",
    "2000-02-29",
    "9999-12-31",
]
_TIMES = [
    "T",
    "10",
    "10:20",
    "10:2",
    "10:20:30",
    "1:2:3",
    "10:20:30.",
    "10:20:30.1",
    "10:20:30.123456789",
    "24:00:00",
    "23:60:00",
    "23:59:60",
    "00:00",
]
_ZONES = [
    "Z",
    "z",
    "UTC",
    "GMT",
    "UT",
    "+01:00",
    "+1:00",
    "+0100",
    "+01",
    "+1",
    "-00:30",
    "+18:00",
    "+18:01",
    "+01:02:03",
    "+010203",
    "+01:0",
    "+01:60",
    "UTC+1",
    "GMT+01:00",
    "UTC-",
    "+",
]
_WORDS = ["", "a", "NaN", "Infinity", "-INF", "+INF", "INF", "1.5", "1,000", "1e2", ".5", "5.", " 1", "é😀", "x" * 300]
_BASE64 = ["aGk=", "aGk", "aGk==", "!!", "aG k=", "aGk=\n", "-_8=", "aB==", "YQ==YQ==", "YWJj\nZGVm"]
_TEXTS = [
    r'"\n\t\"\\\/\b\f\r"',
    r'"\u00e9\ud83d\ude00"',
    r'"\u0000"',
    "'it\\'s \"q\"'",
    '"\x7f"',
    '"\t"',
    r'"\q"',
    r'"\u12"',
    '"',
]


def _text(random: random.Random) -> str:
    kind = random.randrange(8)
    if kind == 0:
        return random.choice(_TEXTS)
    if kind == 1:
        return json.dumps(random.choice(_BASE64))
    if kind in (2, 3):
        return json.dumps(random.choice(_DATES), ensure_ascii=random.random() < 0.5)
    if kind in (4, 5):
        time = random.choice(["", random.choice(" T") + random.choice(_TIMES) + random.choice(["", *_ZONES, " UTC"])])
        return json.dumps(random.choice(["", "", " "]) + random.choice(_DATES) + time + random.choice(["", "", " "]))
    return json.dumps(random.choice(_WORDS), ensure_ascii=random.random() < 0.5)


def _scalar(random: random.Random) -> str:
    kind = random.randrange(12)
    if kind < 4:
        return random.choice(_INTEGERS)
    if kind < 6:
        return random.choice(_FLOATS)
    if kind == 6:
        return random.choice(["true", "false", "null", "null"])
    if kind == 7 and random.random() < 0.2:
        return random.choice([*_NO_NUMBERS, "True", "nul", "tru", "/**/1", "undefined", ""])
    return _text(random)


def _any(random: random.Random, depth: int = 0) -> str:
    kind = random.randrange(10)
    if depth > 4 or kind < 6:
        return _scalar(random)
    inner = [_any(random, depth + 1) for _ in range(random.randrange(3))]
    if kind < 8:
        return "[" + ",".join(inner) + "]"
    return "{" + ",".join(f'"{random.choice("abk")}":{value}' for value in inner) + "}"


def _typed(random: random.Random, name: str) -> str:
    """A value that mostly suits the field of this name."""
    if random.random() < 0.08:
        return _any(random)

    def integer() -> str:
        return str(random.randrange(-100, 100))

    def date() -> str:
        return json.dumps(random.choice(_DATES[:4]))

    def number() -> str:
        magnitude = 10.0 ** random.randrange(-40, 40)
        return random.choice([repr(random.uniform(-1e3, 1e3)), integer(), repr(random.uniform(-1, 1) * magnitude)])

    values: dict[str, Callable[[], str]] = {
        "boolean": lambda: random.choice(["true", "false"]),
        "float": number,
        "double": number,
        "decimal": lambda: random.choice([f"{random.uniform(-1e6, 1e6):.3f}", json.dumps(integer()), integer()]),
        "wide": lambda: str(random.randrange(-(10**27), 10**27)),
        "text": lambda: _text(random),
        "binary": lambda: json.dumps(random.choice(_BASE64)),
        "date": lambda: _text(random) if random.random() < 0.3 else date(),
        "timestamp": lambda: _text(random) if random.random() < 0.7 else integer(),
        "local": lambda: _text(random),
        "list": lambda: "[" + ",".join(integer() for _ in range(random.randrange(4))) + "]",
        "structs": lambda: (
            "["
            + ",".join(_fields(random, {"a": integer, "b": lambda: '"x"'}) for _ in range(random.randrange(3)))
            + "]"
        ),
        "nested": lambda: _fields(
            random, {"a": integer, "b": lambda: _fields(random, {"c": number, "d": lambda: f"[[{integer()}],[]]"})}
        ),
        "map": lambda: _fields(random, {"a": integer, "k": integer, "": integer}),
        "maps": lambda: _fields(
            random, {"a": lambda: _fields(random, {"a": date, "b": lambda: "true"}), "k": lambda: "null"}
        ),
    }
    return values.get(name, integer)()


def _fields(random: random.Random, values: dict[str, Callable[[], str]]) -> str:
    chosen = [(name, value()) for name, value in values.items() if random.random() < 0.8]
    if random.random() < 0.05:
        chosen.append((random.choice("abkx"), _any(random, 3)))
    return "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in chosen) + "}"


_NAMES = [column.split()[0] for column in re.sub(r"[<(][^,]*,[^,]*?[>)]+", "", "".join(DDL.splitlines())).split(", ")][
    :-1
]


def documents(seed: int, count: int) -> Iterator[bytes]:
    """As many texts, the same for the same seed. One in ten is broken somewhere."""
    rng = random.Random(seed)
    for _ in range(count):
        names = rng.sample(_NAMES, rng.randrange(1, len(_NAMES)))
        if rng.random() < 0.1:
            names.append(rng.choice(names))
        if rng.random() < 0.2:
            names.insert(rng.randrange(len(names)), "other")
        space = rng.choice(["", "", " ", "\n\t"])
        pairs = (f'{space}"{name}"{space}:{space}{_typed(rng, name)}{space}' for name in names)
        text = "{" + ",".join(pairs) + "}"
        if rng.random() < 0.1:
            at = rng.randrange(len(text))
            text = rng.choice(
                [text[:at], text[:at] + rng.choice('{}[]",:\\x1 ') + text[at:], text[:at] + text[at + 1 :]]
            )
        yield text.encode("utf-8", "surrogatepass")


CORPUS: Sequence[str] = [
    *[
        "",
        "  ",
        "null",
        "[]",
        '[{"int":1}]',
        "1",
        '"x"',
        "{}",
        "{",
        "}",
        "[1",
        '{"int"}',
        '{"int":}',
        '{"int":1',
        '{"int":1,}',
        '{,"int":1}',
        "{int:1}",
        "{'int':1}",
        '{"int":1 "long":2}',
        '{"\\u0069nt":7}',
        '{"INT":1}',
        '{"int":1,"int":"x"}',
        '{"int":"x","int":1}',
        '{"int":1,"int":null}',
        '{"other":[1,2}}',
        '{"other":"\\q","int":1}',
        '{"nested":{"a":"x","b":{"c":1}}}',
        '{"nested":{"a":1,"a":"x"}}',
        '{"nested":{"b":{"c":"x","d":[[1]]}}}',
        '{"nested":""}',
        '{"nested":[1],"int":1}',
        '{"list":[1,"x",3],"int":5}',
        '{"list":[1,null]}',
        '{"list":[1,]}',
        '{"structs":[{"a":"x","b":"y"},{"a":1}]}',
        '{"structs":[{"a":1},3]}',
        '{"structs":[null]}',
        '{"map":{"x":1,"y":"q"}}',
        '{"maps":{"k":{"a":"x","b":true}}}',
    ],
    "\ufeff{}",
    '{"int":1,"_corrupt_record":"mine"}',
    *('{"other":' + "[" * depth + "]" * depth + ',"int":1}' for depth in (998, 999, 1000)),
    *(
        f'{{"{name}":{json.dumps(text)}}}'
        for name in ("date", "timestamp", "local")
        for text in [*_DATES, "", " 2020-01-02 "]
    ),
    *(f'{{"{name}":"2020-01-02T{time}"}}' for name in ("timestamp", "local") for time in _TIMES),
    *(f'{{"timestamp":"2020-01-02 10:20:30{space}{zone}"}}' for zone in _ZONES for space in ("", " ")),
    *(
        f'{{"{name}":{token}}}'
        for name in _NAMES[:10]
        for token in [*_INTEGERS, *_FLOATS, *_NO_NUMBERS, *map(json.dumps, _WORDS)]
    ),
    *(f'{{"binary":{json.dumps(text)}}}' for text in _BASE64),
    *(f'{{"text":{text}}}' for text in _TEXTS),
    *(f'{{"double":{token}}}' for token in ("1" + "0" * 400, "1" * 1001, "0." + "1" * 900, "1e99999999999")),
]
"""Corner cases, one each."""


class Difference(NamedTuple):
    """What differs from Spark on purpose: where it applies, in which fields, a text that shows it, and the reason."""

    applies: Callable[[str, Any, Any], bool]
    """Given the text, Spark's row and ours."""
    fields: frozenset[str]
    """The fields that may differ for this reason; none else, in the same row either."""
    example: str
    reason: str


def _written(pattern: str) -> Callable[[str, Any, Any], bool]:
    compiled = re.compile(pattern, re.DOTALL)
    return lambda text, _theirs, _ours: compiled.search(text) is not None


def _in(fields: str, *, marked: bool = True) -> frozenset[str]:
    """These fields, and that of corrupt records if the record is one for us alone, or for Spark alone."""
    return frozenset([*fields.split(), *(["_corrupt_record"] if marked else [])])


def _only_marked(text: str, theirs: Any, ours: Any) -> bool:
    return None not in (theirs, ours) and (theirs[-1], ours[-1]) == (None, text) and "}" in text.rstrip()[:-1]


def _without_fields(text: str, row: Any) -> bool:
    return row is not None and row[-1] == text and all(value in (None, "None") for value in row[:-1])


def _not_json(text: str, _theirs: Any, ours: Any) -> bool:
    if not _without_fields(text, ours):
        return False
    try:
        json.loads(text)
    except ValueError:
        return True
    return False


def _lost_in_base64(text: str, theirs: Any, _ours: Any) -> bool:
    return _without_fields(text, theirs) and re.search(r'"binary"\s*:\s*"(\S{4}|\s)*(\S|\S\S=)"', text) is not None


DIFFERENCES: Sequence[Difference] = [
    Difference(
        _written(r'"tiny"\s*:\s*(12[89]|1[3-9]\d|2[0-4]\d|25[0-5])\b'),
        _in("tiny"),
        '{"tiny":200}',
        "Spark makes -56 of it; here it is out of range",
    ),
    Difference(
        _written(r'"text"\s*:\s*([-+\d{\[NI])'),
        _in("text", marked=False),
        '{"text":1.50}',
        "Spark writes what is no text anew, 1.5, and loses digits of long numbers; here the source text is kept",
    ),
    Difference(
        _written(r'"b"\s*:\s*([-+\d{\[NI])'),
        _in("structs", marked=False),
        '{"structs":[{"b":1.50}]}',
        "the same in a list",
    ),
    Difference(
        _written(r"\\u[dD][89a-fA-F]"),
        _in("text structs map maps"),
        '{"text":"\\ud800"}',
        "Spark makes ? of half a surrogate pair; here the text is bad, so that nothing is lost in silence",
    ),
    Difference(
        _written(r'"timestamp"\s*:\s*-?\d{13,}'),
        _in("timestamp"),
        '{"timestamp":9300000000000}',
        "Spark's microseconds overflow; here they are out of range",
    ),
    Difference(
        _written(r'"timestamp"\s*:\s*"\s*T?\d\d?:'),
        _in("timestamp"),
        '{"timestamp":"12:30"}',
        "Spark takes the current date; here a time alone is no timestamp",
    ),
    Difference(
        _written(r'"timestamp"\s*:\s*"[^"]*\dGMT[ T]'),
        _in("timestamp"),
        '{"timestamp":"2020-01-02GMT 10:20GMT"}',
        "Spark takes out the first GMT, and reads the rest with its zone; here a zone stands at the end alone",
    ),
    Difference(
        _written(r'"(decimal|wide)"\s*:\s*"[^"]*[^\x00-\x7f]'),
        _in("decimal wide"),
        '{"decimal":"\u0661"}',
        "Spark takes digits of other scripts too",
    ),
    Difference(
        _lost_in_base64,
        _in(" ".join(_NAMES), marked=False),
        '{"int":1,"binary":"a"}',
        "Spark's parser loses its place in base64 that ends so, and all fields are null; here it is that field",
    ),
    Difference(
        _only_marked,
        _in(""),
        '{"int":1} x',
        "Spark ignores what follows the object; here the fields are the same, and the record is marked",
    ),
    Difference(
        _not_json,
        _in(" ".join(_NAMES)),
        '{"int":1,"date":"\\u12"}',
        "after some syntax errors Spark goes on where its parser stands; here a text that is no JSON has no fields",
    ),
]


def explained(text: str, theirs: Any, ours: Any) -> bool:
    """Whether each field that differs does so for a reason that is in the list."""
    applying = [each for each in DIFFERENCES if each.applies(text, theirs, ours)]
    if None in (theirs, ours):
        return False
    names = [*_NAMES, "_corrupt_record"]
    differing = {name for name, their, our in zip(names, theirs, ours, strict=True) if their != our}
    return differing <= frozenset().union(*(each.fields for each in applying))
