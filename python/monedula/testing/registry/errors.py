"""Errors that the registry answers: a status of HTTP, a code, and a message."""

from collections.abc import Sequence


class ApiError(Exception):
    """An answer that is an error, with Confluent's code for it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        # A code is the status, alone or with two digits behind it.
        self.status = code if code < 1000 else code // 100
        self.code = code
        self.message = message


def no_subject(subject: str) -> ApiError:
    """No such subject."""
    return ApiError(40401, f"Subject '{subject}' not found.")


def no_version(version: int | str) -> ApiError:
    """The subject has no such version."""
    return ApiError(40402, f"Version {version} not found.")


def no_schema(what: str = "Schema") -> ApiError:
    """No such schema."""
    return ApiError(40403, f"{what} not found")


def invalid_schema(reason: str) -> ApiError:
    """A schema cannot be read, or is none."""
    return ApiError(42201, f"Invalid schema: {reason}")


def not_permitted(reason: str) -> ApiError:
    """The mode does not allow it."""
    return ApiError(42205, reason)


def incompatible(subject: str, reasons: Sequence[str]) -> ApiError:
    """A schema breaks the rule of its subject."""
    details = ", ".join(reasons)
    return ApiError(
        409,
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: [{details}]',
    )
