"""Subjects and their contexts: `:.eu:orders-value` is the subject `orders-value` in the context `.eu`."""

from monedula.testing.registry.errors import ApiError

DEFAULT = "."
"""The context of subjects that name none."""

EVERY = ":*:"
"""The prefix that stands for all contexts."""


def split(subject: str) -> tuple[str, str]:
    """The context of a subject, and its name there. The name is empty where the context itself is meant."""
    if not subject.startswith(":."):
        return DEFAULT, subject
    context, colon, name = subject[1:].partition(":")
    return (context, name) if colon else (DEFAULT, subject)


def joined(context: str, name: str) -> str:
    """The subject of this name in a context."""
    return name if context == DEFAULT else f":{context}:{name}"


def checked(subject: str) -> str:
    """A subject that may be registered, written as all write it."""
    context, name = split(subject)
    if not name or any(ord(letter) < 32 for letter in subject) or name in ("__GLOBAL", "__EMPTY"):
        raise ApiError(42208, f"The specified subject '{subject}' is not a valid.")
    return joined(context, name)


def within(context: str, subject: str) -> str:
    """Resolve a subject that something in a context names: one without a context is in the same."""
    return subject if subject.startswith(":.") else joined(context, subject)
