"""What stores and catalogs raise, as `LandingError` in plain text.

deltalake, pyarrow, pyiceberg, SQLAlchemy and botocore raise some thirty classes, with colours, whole answers of S3 as
XML, and the query of an address, which may be a signature.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from monedula.errors import KafkaError, LandingError

_P = ParamSpec("_P")
_R = TypeVar("_R")

_LONGEST = 500
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ANSWER = re.compile(r"(?:<\?xml[^>]*>)?\s*<Error>.*?<Code>(.*?)</Code>\s*<Message>(.*?)</Message>.*", re.DOTALL)
_USER = re.compile(r"://[^\s@:]*:\S*@")
_QUERY = re.compile(r"((?:://|url: /)[^\s?]*)\?\S*")
_STATEMENT = re.compile(r"\n\[SQL: .*|\n\(Background on this error.*", re.DOTALL)
_RETRIES = re.compile(r", max_retries: \d+, retry_timeout: \S+ ")

_HINTS = (
    (
        "169.254.169.254",
        "no credentials were found: give them in the environment, such as `AWS_ACCESS_KEY_ID`, or in `storage_options`",
    ),
    ("URL scheme is not allowed", "an endpoint without TLS needs `AWS_ALLOW_HTTP`, or `AZURE_ALLOW_HTTP`, to be true"),
    ("without LOCATION", "the bucket is in another region: give `AWS_REGION`"),
    ("PermanentRedirect", "the bucket is in another region: give `AWS_REGION`"),
    ("AuthorizationHeaderMalformed", "the bucket is in another region: give `AWS_REGION`"),
)


def plain_text(error: BaseException) -> str:
    """What an error says, in one line: without colours, statements of SQL, and what an address has of secrets."""
    text = _STATEMENT.sub("", _COLOUR.sub("", str(error)))
    text = _ANSWER.sub(lambda answer: f"{answer[1]}: {answer[2].splitlines()[0]}", text)
    text = re.sub(r"\s*↳\s*", ": ", text)
    text = " ".join(text.split())
    text = _RETRIES.sub(" ", text)
    text = _QUERY.sub(r"\1", _USER.sub("://", text)).strip()
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - 3]}..."
    kind = type(error).__name__
    # The names of these classes say nothing.
    return text if text and kind in ("OSError", "DeltaError", "Exception") else f"{kind}: {text}" if text else kind


def landing_error(name: str, what: str, error: Exception | None, hint: str | None = None) -> LandingError:
    """The error that a user sees.

    Args:
        name: the table.
        what: what failed, such as "the table cannot be opened".
        error: what the store or the catalog raised; `None` if nothing was tried.
        hint: what to do, where the error itself does not tell it.
    """
    if error is None:
        return LandingError(f"{name}: {what}", hint=hint)
    told = str(error)
    hint = next((hint for sign, hint in _HINTS if sign in told), hint)
    made = LandingError(f"{name}: {what}: {plain_text(error)}", hint=hint)
    # A traceback shows the whole of it, such as what a store answers to a signature that is not right.
    made.__cause__ = None if any(each.search(told) for each in (_USER, _QUERY, _ANSWER)) else error
    made.__suppress_context__ = True
    return made


@contextmanager
def of_store(name: str, what: str) -> Iterator[None]:
    """Raise what a store or a catalog raises within as `LandingError`; arguments as of `landing_error`."""
    try:
        yield
    except (KafkaError, TypeError, AttributeError, NameError, AssertionError):
        raise
    except Exception as error:
        raise landing_error(name, what, error)  # noqa: B904 - it has the cause, unless that tells secrets


def raises_landing_error(what: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Have a method of a table, which has a `name`, raise `LandingError`; `what` as of `landing_error`."""

    def change(method: Callable[_P, _R]) -> Callable[_P, _R]:
        @wraps(method)
        def changed(*arguments: _P.args, **named: _P.kwargs) -> _R:
            table: Any = arguments[0]
            with of_store(table.name, what):
                return method(*arguments, **named)

        return changed

    return change
