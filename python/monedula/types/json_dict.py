"""`JsonDict`: the dict of what a client tells of itself, also as types of JSON."""

from datetime import datetime
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class JsonDict(dict[K, V]):
    """A dict, as `health()` and `lag()` return it; `to_json()` has the same as types of JSON."""

    def to_json(self) -> dict[str, Any]:
        """The same as types of JSON, for `json.dumps` and web frameworks: partitions and times become texts.

        Examples:
            >>> JsonDict({TopicPartition("orders", 0): 5}).to_json()
            {'orders-0': 5}
        """
        return {str(_json_value(key)): _json_value(value) for key, value in self.items()}


def _json_value(value: Any) -> Any:
    match value:
        case (str(topic), int(partition)) if isinstance(value, tuple):
            return f"{topic}-{partition}"
        case dict():
            return JsonDict(value).to_json()
        case list():
            return [_json_value(each) for each in value]
        case datetime():
            return value.isoformat()
        case _:
            return value
