"""JSON texts for the comparison with Spark's `from_json` under its options."""

import json
import random
from collections.abc import Iterator, Sequence

PATTERNS: Sequence[str] = [
    "yyyy-MM-dd",
    "yyyy/MM/dd",
    "dd.MM.yyyy",
    "d.M.yyyy",
    "M/d/yy",
    "yy-MM-dd",
    "y-M-d",
    "yyyyy-MM-dd",
    "yyyyMMdd",
    "yyyyMMddHHmmss",
    "yyyyMMddHHmmssSSS",
    "yyMMdd",
    "yMMdd",
    "MMdd",
    "dd MMM yyyy",
    "MMMM d, yyyy",
    "d LLL yyyy",
    "yyyy",
    "yyyy-MM",
    "MM-dd",
    "HH:mm",
    "yyyy-DDD",
    "yyyy-D",
    "yyyy-MM-dd DDD",
    "DDD",
    "yyyy-MM-dd HH:mm:ss",
    "yyyy-MM-dd'T'HH:mm:ss",
    "yyyy-MM-dd'T'HH:mm:ss.SSS",
    "yyyy-MM-dd'T'HH:mm:ss.SSSSSSSSS",
    "yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]",
    "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
    "yyyy-MM-dd'T'HH:mm:ssX",
    "yyyy-MM-dd'T'HH:mm:ssXX",
    "yyyy-MM-dd'T'HH:mm:ssXXXX",
    "yyyy-MM-dd'T'HH:mm:ssXXXXX",
    "yyyy-MM-dd'T'HH:mm:ssx",
    "yyyy-MM-dd'T'HH:mm:ssxx",
    "yyyy-MM-dd'T'HH:mm:ssxxx",
    "yyyy-MM-dd'T'HH:mm:ssxxxx",
    "yyyy-MM-dd'T'HH:mm:ssZ",
    "yyyy-MM-dd'T'HH:mm:ssZZZZZ",
    "yyyy-MM-dd HH:mm:ss VV",
    "yyyy-MM-dd hh:mm:ss a",
    "yyyy-MM-dd h:mm a",
    "yyyy-MM-dd K:mm a",
    "yyyy-MM-dd kk:mm",
    "yyyy-MM-dd h:mm",
    "yyyy-MM-dd a",
    "yyyy-MM-dd H h a",
    "yyyy-MM-dd H:m:s",
    "'it''s' yyyy",
    "yyyy-MM-dd''HH",
    "[yyyy-MM-dd][dd/MM/yyyy]",
    "[yyyy[-MM[-dd]]]",
    "yyyy-MM-dd HH:mm:ss.SSS.SSS",
    "yyyy-MM-dd MM",
    "",
]
"""Patterns of dates and times that are supported."""

REFUSED: Sequence[str] = [
    "YYYY-ww",
    "EEE, d MMM",
    "yyyy G",
    "z",
    "O",
    "QQQ",
    "n",
    "ppH",
    "MMMMM",
    "yyyyyyy",
    "'open",
    "a]",
    "{",
    "SSSSSSSSSS",
]
"""Patterns that are refused. Some are for Spark too."""

_ZONES = ["Z", "z", "+01:00", "-0330", "+01", "+01:02:03", "+010203", "+00", "+0000", "+00:00", "+24:00", "+18:30"]
_REGIONS = [
    "Europe/Prague",
    "europe/prague",
    "UTC",
    "GMT",
    "UT",
    "UTC+01:00",
    "GMT+1",
    "Etc/GMT+5",
    "Z",
    "Nowhere/Here",
    "+01:00",
    "UTC0",
    "America/Argentina/Buenos_Aires",
]


def _part(random: random.Random, letter: str, count: int) -> str:
    """A text for some letters of a pattern, which mostly suits them."""
    if random.random() < 0.05:
        return random.choice(["", "x", "-1", "+1", "0", "00", "99", "123456789012345678901", " ", "1."])
    width = count if random.random() < 0.8 else random.randrange(1, 5)

    def number(least: int, most: int) -> str:
        value = random.randint(least, most)
        return random.choice(["", "", "", "", "-", "+"][: 4 if random.random() < 0.9 else 6]) + f"{value:0{width}}"

    match letter:
        case "y":
            year = random.choice([1970, 2020, 2021, 1900, 1583, 9999, 12345, 294247, random.randint(0, 3000)])
            return f"{year % 100:02}" if count == 2 and random.random() < 0.9 else f"{year:0{width}}"
        case "M" | "L" if count > 2:
            name = random.choice(["January", "February", "March", "May", "June", "September", "December", "Sept"])
            text = name[:3] if count == 3 and random.random() < 0.8 else name
            return random.choice([text, text.lower(), text.upper()])
        case "M" | "L":
            return number(1, 12 if random.random() < 0.9 else 14)
        case "d":
            return number(1, 28 if random.random() < 0.8 else 32)
        case "D":
            return number(1, 366 if random.random() < 0.9 else 370)
        case "H" | "k" | "h" | "K":
            return number(0, 12 if random.random() < 0.6 else 24)
        case "m" | "s":
            return number(0, 59 if random.random() < 0.9 else 61)
        case "S":
            return "".join(random.choice("0123456789") for _ in range(random.choice([count, count, 0, 1, 3, 6, 9, 10])))
        case "a":
            return random.choice(["AM", "PM", "am", "pm", "a", "A.M."])
        case "V":
            return random.choice(_REGIONS)
        case "X" | "x" | "Z":
            return random.choice(_ZONES)
    return letter * count


def text_for(random: random.Random, pattern: str) -> str:
    """A text that mostly has the form of the pattern."""
    made, at, quoted = [], 0, False
    skip = 0
    while at < len(pattern):
        letter, count = pattern[at], 1
        if letter == "'":
            if pattern[at + 1 : at + 2] == "'":
                made.append("'")
                at += 2
                continue
            quoted = not quoted
        elif quoted:
            made.append(letter)
        elif letter == "[":
            skip += bool(skip) or random.random() < 0.4
        elif letter == "]":
            skip = max(skip - 1, 0)
        elif letter.isalpha():
            while pattern[at + count : at + count + 1] == letter:
                count += 1
            made.extend([] if skip else [_part(random, letter, count)])
        elif not skip:
            made.append(letter)
        at += count
    text = "".join(made)
    if random.random() < 0.1 and text:
        index = random.randrange(len(text))
        text = random.choice(
            [text[:index], text + random.choice(" x0Z"), text[:index] + text[index + 1 :], text.upper()]
        )
    return text


def dated(seed: int, pattern: str, count: int) -> Iterator[bytes]:
    """Objects with one text as `date`, `timestamp` and `local`."""
    rng = random.Random(seed)
    for _ in range(count):
        text = json.dumps(text_for(rng, pattern))
        yield f'{{"date":{text},"timestamp":{text},"local":{text}}}'.encode()


DATED_DDL = "date date, timestamp timestamp, local timestamp_ntz, _corrupt_record string"

ZONES: Sequence[str] = [
    "UTC",
    "Europe/Prague",
    "America/New_York",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "Africa/Cairo",
    "Pacific/Apia",
    "Africa/Casablanca",
    "PST",
    "EST",
    "+05:30",
    "GMT-3",
]


def zoned(seed: int, count: int) -> Iterator[bytes]:
    """Timestamps without a zone at all hours, and with one of some region."""
    rng = random.Random(seed)
    for _ in range(count):
        year = rng.choice([rng.randint(1971, 2037), rng.randint(2038, 2500), rng.choice([9999, 10000, 123456])])
        day = f"{year:04}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
        time = f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}"
        zone = rng.choice(
            ["", "", "", " Europe/Prague", " America/New_York", "Asia/Tokyo", " europe/prague", " No/Where", " PST"]
        )
        yield f'{{"timestamp":"{day}T{time}{zone}"}}'.encode()
    # Each quarter of an hour of days on which clocks change.
    for day in (
        "2024-03-31",
        "2024-10-27",
        "2024-03-10",
        "2024-11-03",
        "2024-04-07",
        "2024-10-06",
        "2011-12-30",
        "2050-03-27",
    ):
        for quarter in range(24 * 4):
            yield f'{{"timestamp":"{day} {quarter // 4:02}:{quarter % 4 * 15:02}:00"}}'.encode()


SYNTAX: Sequence[str] = [
    "{/*c*/'int'/**/:/*x*/1/**/}/**/",
    '// first\n{"int":1// second\r,"long":2}// third',
    '{"text":"/*no*/","int":1}',
    '{"int":1/*}',
    '{"int":1/}',
    '{"int":/ 1}',
    '{"text":{"a":1/*c*/}}',
    "{int:1}",
    "{int :1, long\t: 2,text:3}",
    "{1a:1,int:2}",
    "{$a_b-c+d*e@f#g:1,int:2}",
    "{é:1,int:2}",
    "{a.b:1,int:2}",
    "{:1}",
    "{nested:{a:1,b:{c:2}},map:{x:1}}",
    "{'int':1,'text':'it\\'s'}",
    "{'int':1,\"text\":'a\"b'}",
    '{"text":"it\\\'s","int":1}',
    '{"int":007,"long":-007,"double":007.5,"decimal":00.5,"float":-00}',
    '{"int":00,"long":-00,"double":00,"list":[01,02]}',
    '{"int":0,"double":0.5}',
    '{"timestamp":007}',
    '{"double":NaN,"float":"NaN","int":1}',
    '{"double":"Infinity","float":"-INF","int":1}',
    '{"double":Infinity,"int":1}',
    '{"float":-INF,"int":1}',
    '{"other":NaN,"int":1}',
    '{"decimal":NaN,"int":1}',
    '{"text":"\\q\\ \\é\\😀\\x","int":1}',
    '{"text":"\\u12","int":1}',
    '{"text":"a\tb\nc\x01","int":1}',
    '{"te\txt":1,"int":1}',
]
"""Texts that are JSON only with an option, or never."""

LENIENT: Sequence[tuple[str, str]] = [
    ("allowComments", "true"),
    ("allowUnquotedFieldNames", "true"),
    ("allowSingleQuotes", "false"),
    ("allowNumericLeadingZeros", "true"),
    ("allowNonNumericNumbers", "false"),
    ("allowBackslashEscapingAnyCharacter", "true"),
    ("allowUnquotedControlChars", "true"),
]

PARTIAL: Sequence[str] = [
    '{"nested":{"a":"x","b":{"c":1}},"int":5}',
    '{"nested":{"a":"x","int":7},"int":5}',
    '{"nested":{"b":{"c":"x","int":7},"long":8},"int":5}',
    '{"nested":{"b":{"d":[[1,"x",2],[3]],"int":7},"long":8},"int":5}',
    '{"list":[1,"x",3],"int":5}',
    '{"list":[1,[2],3],"int":5}',
    '{"list":[1,{"int":7},3],"int":5}',
    '{"structs":[{"a":1},{"a":"x","int":7},{"a":2}],"int":5}',
    '{"structs":[{"a":1},3,{"int":7}],"int":5}',
    '{"map":{"x":1,"y":"q","int":7},"int":5}',
    '{"map":{"x":1,"y":{"int":6},"int":7},"int":5}',
    '{"maps":{"k":{"a":"x","b":true,"int":7},"int":8},"int":5}',
    '{"int":"x","long":2}',
    '{"int":{"long":1},"long":2}',
    '{"int":[1,{"long":1}],"long":2}',
    '{"nested":{"a":"x","nested":{"a":1}},"int":5}',
    '{"nested":{"a":"x"}',
    '{"nested":{"a":"x"},"int":}',
    '{"nested":{"a":"x","int":"y","long":3}}',
    '{"int":1,"nested":{"a":"x","int":7},"long":5}',
    '{"nested":{"a":"x","list":[1,2],"map":{"k":1}},"int":5}',
]
"""Faults in nested values, with fields behind them."""
