"""The largest number of pairs of two sides, none of which is in two pairs."""

from collections.abc import Sequence


def most_pairs(fits: Sequence[Sequence[bool]]) -> int:
    """How many of the left side can have one of the right side for themselves.

    Args:
        fits: for each of the left side, whether each of the right side fits.
    """
    taken: dict[int, int] = {}

    def finds(left: int, seen: set[int]) -> bool:
        for right, is_fit in enumerate(fits[left]):
            if is_fit and right not in seen:
                seen.add(right)
                if right not in taken or finds(taken[right], seen):
                    taken[right] = left
                    return True
        return False

    return sum(finds(left, set()) for left in range(len(fits)))
