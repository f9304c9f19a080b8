import json
import pickle
import re
from typing import Any

import pytest
from monedula import ConfigError, TopicPartition
from monedula.spark.offsets import (
    StreamOffset,
    from_dict,
    parse_assign,
    parse_offsets,
    parse_timestamps,
    to_dict,
)

A0, A2, A10, B0 = (TopicPartition(*pair) for pair in [("a", 0), ("a", 2), ("a", 10), ("b", 0)])


def test_offsets_are_written_by_topic_and_then_by_the_partitions_number() -> None:
    written = json.dumps(to_dict({B0: 4, A10: 3, A2: 2, A0: 1}))
    assert written == '{"a": {"0": 1, "2": 2, "10": 3}, "b": {"0": 4}}'


def test_what_is_written_is_read_back() -> None:
    offsets = {A0: 0, A10: (1 << 63) - 1, B0: 7}
    assert from_dict(json.loads(json.dumps(to_dict(offsets)))) == offsets
    assert from_dict({}) == {}


def test_resolved_starts_are_the_first_key_and_come_back() -> None:
    offset = StreamOffset({A0: 5, B0: 9}, {B0: 7})
    assert json.dumps(offset.to_dict()) == '{"$start": {"b": {"0": 7}}, "a": {"0": 5}, "b": {"0": 9}}'
    assert StreamOffset.from_dict(offset.to_dict()) == offset
    assert pickle.loads(pickle.dumps(offset)) == offset


def test_an_offset_without_resolved_starts_is_that_of_sparks_own_source() -> None:
    assert StreamOffset({A0: 5}).to_dict() == {"a": {"0": 5}}
    assert StreamOffset.from_dict({"a": {"0": 5}}) == StreamOffset({A0: 5})


@pytest.mark.parametrize(
    ("foreign", "found"),
    [
        ({"logOffset": 3}, "'logOffset' has 3, no map"),
        ({"sourceVersion": 1, "index": -1}, "'sourceVersion' has 1"),
        (5, "5 is no map"),
        ("a", "'a' is no map"),
        (None, "None is no map"),
        ([{"a": {"0": 1}}], "is no map"),
        ({"a": {"0": -1}}, "a-0 has -1"),
        ({"a": {"0": 1.0}}, "a-0 has 1.0"),
        ({"a": {"0": True}}, "a-0 has True"),
        ({"a": {"0": "1"}}, "a-0 has '1'"),
        ({"a": {"0": None}}, "a-0 has None"),
        ({"a": {"0": 1 << 63}}, "a-0 has 9223372036854775808"),
        ({"a": {"x": 1}}, "'a' has 'x'"),
        ({"a": {"-1": 1}}, "'a' has '-1'"),
        ({"a": {"01": 1}}, "'a' has '01'"),
        ({"a": {"٣": 1}}, "'a' has '٣'"),
        ({"a": {"2147483648": 1}}, "'a' has '2147483648'"),
        ({"a": {0: 1}}, "'a' has 0"),
        ({"a b": {"0": 1}}, "'a b' is no topic"),
        ({"": {"0": 1}}, "'' is no topic"),
        ({"$other": {"0": 1}}, "'$other' is no topic"),
        ({"$start": {"a": {"0": 1}}}, "partitions that the offset itself has not: a-0"),
        ({"$start": {"a": {"0": -2}}, "a": {"0": 1}}, "a-0 has -2"),
        ({"$start": 3, "a": {"0": 1}}, "3 is no map"),
    ],
)
def test_a_foreign_offset_is_an_error_that_says_what_was_found(foreign: Any, found: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(found)) as caught:
        StreamOffset.from_dict(foreign)
    assert "another kind of source" in str(caught.value)
    assert caught.value.key == "checkpointLocation"


def test_a_long_foreign_offset_is_not_repeated_in_full() -> None:
    with pytest.raises(ConfigError) as caught:
        StreamOffset.from_dict("x" * 100_000)
    assert len(str(caught.value)) < 400


def test_starting_offsets_may_stand_for_the_ends_of_the_log() -> None:
    assert parse_offsets('{"a":{"0":23,"2":-1},"b":{"0":-2}}', "startingOffsets") == {A0: 23, A2: -1, B0: -2}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "first",
        "23",
        "[]",
        "null",
        '{"a":23}',
        '{"a":[0]}',
        '{"a":{"x":23}}',
        '{"a":{"-1":23}}',
        '{"a":{"0":1.5}}',
        '{"a":{"0":null}}',
        '{"a":{"0":true}}',
        '{"a":{"0":"23"}}',
        '{"a":{"0":9223372036854775808}}',
        '{"a":{"0":1},"a":{"0":2}}',
        '{"a":{"0":1,"0":2}}',
        '{"":{"0":1}}',
        '{"a":{"0":1}',
        '{"a":{"0":1}} more',
        "[" * 100_000,
    ],
)
def test_offsets_that_cannot_be_read_are_an_error_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_offsets(text, "endingOffsets")
    assert caught.value.key == "endingOffsets"
    assert 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}, got ' + text in str(caught.value)


def test_offsets_below_earliest_mean_nothing() -> None:
    with pytest.raises(ConfigError, match="offset -3 of a-0 is negative"):
        parse_offsets('{"a":{"0":-3}}', "startingOffsets")


def test_timestamps_are_read_and_are_not_negative() -> None:
    assert parse_timestamps('{"a": {"0": 1000}}', "startingOffsetsByTimestamp") == {A0: 1000}
    with pytest.raises(ConfigError, match="timestamp -1 of a-0 is before 1970"):
        parse_timestamps('{"a": {"0": -1}}', "startingOffsetsByTimestamp")
    with pytest.raises(ConfigError, match=re.escape('Expected e.g. {"topicA": {"0": 123456789')):
        parse_timestamps('{"a": 5}', "startingOffsetsByTimestamp")


def test_assigned_partitions_are_read_once_each_and_sorted() -> None:
    assert parse_assign('{"b":[0],"a":[10,2,0,2]}') == (A0, A2, A10, B0)


@pytest.mark.parametrize(
    "text", ['{"a":0}', '{"a":{"0":1}}', '{"a":[-1]}', '{"a":["x"]}', '{"a":[0]', '{"a":[2147483648]}']
)
def test_an_assignment_that_cannot_be_read_is_an_error_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape('Expected e.g. {"topicA":[0,1],"topicB":[0,1]}, got ' + text)):
        parse_assign(text)
