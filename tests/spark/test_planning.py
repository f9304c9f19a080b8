import random
from itertools import pairwise

import pytest
from monedula import TopicPartition
from monedula.spark.source.planning import OffsetRange, coalesce, split


def ranges_of(*sizes: int, first: int = 0) -> list[OffsetRange]:
    return [OffsetRange(TopicPartition("t", index), first, first + size) for index, size in enumerate(sizes)]


def sizes_of(ranges: list[OffsetRange]) -> list[tuple[int, int]]:
    return [(each.partition.partition, each.size) for each in ranges]


def test_empty_and_backward_ranges_are_dropped() -> None:
    ranges = [*ranges_of(5, 0), OffsetRange(TopicPartition("t", 2), 7, 3)]
    assert sizes_of(split(ranges)) == [(0, 5)]
    assert split([], 5, 5) == []


def test_without_options_every_partition_is_one_range() -> None:
    assert split(ranges_of(1000, 1)) == ranges_of(1000, 1)


def test_enough_partitions_are_not_split() -> None:
    assert split(ranges_of(1000, 1), 2) == ranges_of(1000, 1)


def test_large_partitions_are_split_to_about_the_wanted_number() -> None:
    assert sizes_of(split(ranges_of(10, 1000), 4)) == [(0, 10), (1, 333), (1, 333), (1, 334)]


def test_shares_are_rounded_half_up() -> None:
    assert sizes_of(split(ranges_of(3, 1), 6)) == [(0, 1), (0, 1), (0, 1), (1, 1)]
    assert sizes_of(split(ranges_of(50, 30), 4)) == [(0, 16), (0, 17), (0, 17), (1, 15), (1, 15)]


def test_partitions_that_stay_whole_do_not_count_in_the_shares_of_others() -> None:
    assert len(split(ranges_of(100, 100, 1000, 1000), 6)) == 6
    assert len(split(ranges_of(*[100] * 10, 1000), 20)) == 20


def test_there_are_no_more_pieces_than_offsets() -> None:
    assert sizes_of(split(ranges_of(3), 10)) == [(0, 1), (0, 1), (0, 1)]


def test_pieces_hold_no_more_than_the_most_records() -> None:
    assert sizes_of(split(ranges_of(10, 4), None, 4)) == [(0, 3), (0, 3), (0, 4), (1, 4)]


def test_both_options_split_one_after_the_other() -> None:
    assert sizes_of(split(ranges_of(8), 4, 4)) == [(0, 2)] * 4


def test_a_partition_with_a_small_piece_is_not_split_further() -> None:
    assert sizes_of(split(ranges_of(7), 4, 3)) == [(0, 2), (0, 2), (0, 3)]


@pytest.mark.parametrize("seed", range(50))
def test_pieces_cover_every_offset_once(seed: int) -> None:
    numbers = random.Random(seed)
    ranges = ranges_of(*(numbers.choice([0, 1, 7, 1000, 10**7]) for _ in range(6)), first=numbers.randrange(1 << 40))
    pieces = split(ranges, numbers.choice([None, 1, 7, 40]), numbers.choice([None, 10**5, 10**6]))
    for each in ranges:
        own = [piece for piece in pieces if piece.partition == each.partition]
        assert sum(piece.size for piece in own) == each.size
        assert all(piece.size > 0 for piece in own)
        assert all(one.end == other.start for one, other in pairwise(own))
        assert not own or (own[0].start, own[-1].end) == (each.start, each.end)


def test_without_a_most_every_range_is_a_group() -> None:
    ranges = ranges_of(5, 1, 3)
    assert coalesce(ranges) == coalesce(ranges, 3) == [[each] for each in ranges]
    assert coalesce([], 3) == []


def test_groups_are_about_equally_large() -> None:
    groups = coalesce(ranges_of(100, 1, 1, 60, 40, 1), 2)
    assert [sizes_of(group) for group in groups] == [[(0, 100), (1, 1), (5, 1)], [(2, 1), (3, 60), (4, 40)]]


def test_ranges_that_follow_upon_each_other_become_one() -> None:
    ranges = split(ranges_of(1000, 1), None, 100)
    assert [sizes_of(group) for group in coalesce(ranges, 2)] == [[(0, 500), (1, 1)], [(0, 500)]]
    assert coalesce(ranges, 1) == [ranges_of(1000, 1)]


def test_ranges_with_a_gap_are_refused() -> None:
    partition = TopicPartition("t", 0)
    with pytest.raises(ValueError, match="do not follow upon each other"):
        coalesce([OffsetRange(partition, 0, 5), OffsetRange(partition, 6, 9)], 1)


@pytest.mark.parametrize("seed", range(200))
def test_groups_cover_every_offset_once_without_a_partition_twice(seed: int) -> None:
    numbers = random.Random(seed)
    ranges = ranges_of(*(numbers.choice([1, 7, 1000, 10**5]) for _ in range(numbers.randrange(1, 12))))
    pieces = split(ranges, None, numbers.choice([None, 1000, 3000]))
    most = numbers.randrange(1, 9)
    groups = coalesce(pieces, most)
    assert len(groups) == min(most, len(pieces))
    assert coalesce(list(reversed(pieces)), most) == groups or len(pieces) <= most
    for group in groups:
        assert group == sorted(group)
        assert len({each.partition for each in group}) == len(group)
    covered = sorted(each for group in groups for each in group)
    for each in ranges:
        own = [piece for piece in covered if piece.partition == each.partition]
        assert (own[0].start, own[-1].end) == (each.start, each.end)
        assert all(one.end == other.start for one, other in pairwise(own))
    loads = [sum(each.size for each in group) for group in groups]
    assert max(loads) <= sum(loads) / len(groups) + max(each.size for each in ranges)
