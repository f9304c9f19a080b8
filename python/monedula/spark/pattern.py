"""Java regular expressions for topics."""

import re


def topic_pattern(java_pattern: str) -> re.Pattern[str]:
    """Stub."""
    return re.compile(java_pattern)
