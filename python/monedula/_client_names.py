"""`client.id` of a client, for what tells clients apart."""

from collections.abc import Iterable

DEFAULT = "monedula"


def named_in(raw: Iterable[tuple[str, str]]) -> str:
    """The `client.id` of settings in the core's form."""
    return next((value for key, value in raw if key.strip().replace("_", ".") == "client.id"), DEFAULT)


def client_id(client: object) -> str:
    """The `client.id` of a consumer, a producer or an admin client."""
    return getattr(client, "_client_id", DEFAULT)
