"""What worker processes run: they import it by name."""

from typing import Any

import monedula


def rows(settings: dict[str, Any], partitions: list[tuple[str, int]]) -> int:
    """How many records the partitions hold."""
    return sum(len(batch) for batch in monedula.read(settings, partitions))
