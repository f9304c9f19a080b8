import random

import pytest
from monedula import TopicPartition
from monedula.spark.source.limits import TriggerDelay, byte_limit, rate_limit

P = [TopicPartition("t", number) for number in range(6)]
LONG_MAX = (1 << 63) - 1


def test_offsets_are_shared_out_by_backlog() -> None:
    assert rate_limit(10, {P[0]: 0, P[1]: 100}, {P[0]: 300, P[1]: 200}, {}) == {P[0]: 7, P[1]: 102}


def test_a_small_partition_gets_one_offset_at_least() -> None:
    assert rate_limit(10, {P[0]: 0, P[1]: 0}, {P[0]: 100_000, P[1]: 3}, {}) == {P[0]: 9, P[1]: 1}


def test_no_partition_goes_beyond_its_end() -> None:
    assert rate_limit(1000, {P[0]: 0, P[1]: 5}, {P[0]: 30, P[1]: 6}, {}) == {P[0]: 30, P[1]: 6}


def test_without_backlog_the_ends_stay() -> None:
    assert rate_limit(5, {P[0]: 9, P[1]: 8}, {P[0]: 9, P[1]: 7}, {}) == {P[0]: 9, P[1]: 7}
    assert rate_limit(5, {}, {}, {}) == {}


def test_new_partitions_begin_at_their_earliest_offset() -> None:
    assert rate_limit(10, {P[0]: 90}, {P[0]: 100, P[1]: 60}, {P[1]: 50}) == {P[0]: 95, P[1]: 55}
    assert rate_limit(10, {P[0]: 90}, {P[0]: 100}, {P[0]: 0}) == {P[0]: 100}


def test_partitions_without_a_start_go_to_their_end() -> None:
    assert rate_limit(2, {P[0]: 0}, {P[0]: 10, P[1]: 10}, {}) == {P[0]: 2, P[1]: 10}


def test_partitions_that_are_gone_are_left_out() -> None:
    assert rate_limit(2, {P[0]: 0, P[1]: 0}, {P[0]: 10}, {}) == {P[0]: 2}


def test_a_limit_beyond_every_number_is_no_limit() -> None:
    latest = {P[0]: LONG_MAX, P[1]: 10}
    assert rate_limit(LONG_MAX, {P[0]: LONG_MAX - 5, P[1]: 0}, latest, {}) == latest


@pytest.mark.parametrize("seed", range(300))
def test_a_limited_batch_stays_within_its_bounds_and_gets_on(seed: int) -> None:
    numbers = random.Random(seed)
    largest = numbers.choice([10, 10**6, 1 << 53, 1 << 60])
    start = {each: numbers.randrange(largest) for each in P[: numbers.randrange(1, 7)]}
    latest = {each: begin + numbers.choice([0, 1, numbers.randrange(largest)]) for each, begin in start.items()}
    limit = numbers.choice([1, 5, 1000, largest])
    per_offset = {each: numbers.choice([0.01, 1.0, 250.5, 1e6]) for each in start}
    for ends in (rate_limit(limit, start, latest, {}), byte_limit(limit, start, latest, per_offset)):
        assert ends.keys() == latest.keys()
        for each in start:
            assert start[each] <= ends[each] <= latest[each]
            assert ends[each] > start[each] or latest[each] == start[each]
    taken = sum(end - start[each] for each, end in rate_limit(limit, start, latest, {}).items())
    assert taken <= (limit + len(start)) * (1 + 1e-12)


def test_bytes_are_shared_out_by_backlog() -> None:
    start, latest = {P[0]: 0, P[1]: 100}, {P[0]: 100, P[1]: 200}
    assert byte_limit(1500, start, latest, {P[0]: 10.0, P[1]: 20.0}) == {P[0]: 50, P[1]: 150}
    assert byte_limit(3000, start, latest, {P[0]: 10.0, P[1]: 20.0}) == latest


def test_the_smallest_byte_limit_still_gives_every_partition_one_offset() -> None:
    assert byte_limit(1, {P[0]: 0, P[1]: 7}, {P[0]: 100, P[1]: 8}, {P[0]: 1e9, P[1]: 1e9}) == {P[0]: 1, P[1]: 8}


def test_a_partition_without_an_estimate_counts_with_the_mean() -> None:
    start, latest = {P[0]: 0, P[1]: 0}, {P[0]: 100, P[1]: 100}
    for unknown in ({}, {P[1]: 0.0}, {P[1]: float("inf")}, {P[1]: float("nan")}):
        assert byte_limit(1000, start, latest, {P[0]: 10.0, **unknown}) == {P[0]: 50, P[1]: 50}


def test_without_any_estimate_nothing_is_limited() -> None:
    assert byte_limit(1, {P[0]: 0}, {P[0]: 100, P[1]: 5}, {}) == {P[0]: 100, P[1]: 5}


def test_the_first_micro_batch_never_waits() -> None:
    assert not TriggerDelay().should_wait(1000, 60_000, {P[0]: 0}, {P[0]: 1}, 1_700_000_000_000)


def test_a_micro_batch_waits_for_enough_offsets() -> None:
    delay, now = TriggerDelay(), 1_700_000_000_000
    assert not delay.should_wait(10, 60_000, {P[0]: 0}, {P[0]: 1}, now)
    assert delay.should_wait(10, 60_000, {P[0]: 1}, {P[0]: 10}, now + 1)
    assert not delay.should_wait(10, 60_000, {P[0]: 1}, {P[0]: 11}, now + 2)


def test_a_micro_batch_waits_no_longer_than_the_delay_since_the_last() -> None:
    delay, now = TriggerDelay(), 1_700_000_000_000
    delay.should_wait(10, 60_000, {}, {}, now)
    assert not delay.should_wait(10, 60_000, {P[0]: 0}, {P[0]: 10}, now + 30_000)
    assert delay.should_wait(10, 60_000, {P[0]: 10}, {P[0]: 11}, now + 89_999)
    assert not delay.should_wait(10, 60_000, {P[0]: 10}, {P[0]: 11}, now + 90_000)


def test_partitions_that_are_new_count_from_their_first_offset() -> None:
    delay = TriggerDelay()
    delay.should_wait(10, 60_000, {}, {}, 1_700_000_000_000)
    assert not delay.should_wait(10, 60_000, {P[0]: 5}, {P[0]: 6, P[1]: 9}, 1_700_000_000_001)
