"""Tokens for OAUTHBEARER from the user's code: a function, or an object with a method `token`."""

import math
from collections.abc import Callable, Mapping
from typing import Any

NAMES = ("sasl.oauthbearer.token.provider", "sasl.oauth.token.provider", "oauth.cb")
"""The setting, then its names in kafka-python and aiokafka, and in confluent-kafka; with dots."""


class TokenSource:
    """Source of tokens from the user's code. The core calls it on a thread of its own, one call at a time."""

    def __init__(self, provider: Any, config: str) -> None:
        self._provider = provider
        self._ask = _how_to_ask(provider, config)

    def __repr__(self) -> str:
        return "<TokenSource>"  # the user's object may show its secrets

    def fetch(self) -> tuple[str, float | None, list[tuple[str, str]]]:
        """Return a token, its expiry (seconds since 1970; `None` for its claim `exp`), and its SASL extensions."""
        answer = _awaited(self._ask())
        extensions: Any = None
        if hasattr(self._provider, "extensions"):
            extensions = _awaited(self._provider.extensions())
        token, expiry = answer, None
        if isinstance(answer, (tuple, list)):
            if not 1 <= len(answer) <= 4:
                raise TypeError(f"the token provider returned {len(answer)} values; {_EXPECTED}")
            token, expiry, _principal, given = [*answer, None, None, None][:4]
            extensions = given or extensions
        if isinstance(token, bytes):
            token = token.decode("ascii")
        if not isinstance(token, str) or not token.strip():
            raise TypeError(f"the token provider returned {_kind(token)} for the token; {_EXPECTED}")
        if expiry is not None:
            _check_expiry(expiry)
        if extensions is not None and not isinstance(extensions, Mapping):
            raise TypeError(f"the token provider returned {_kind(extensions)} for the extensions; {_EXPECTED}")
        pairs = [(str(name), str(value)) for name, value in (extensions or {}).items()]
        # Tokens read from a file may end with a line break.
        return token.strip(), None if expiry is None else float(expiry), pairs


_EXPECTED = "expected a token, or (token, expiry in seconds since 1970[, principal[, extensions]])"


_EARLIEST_EXPIRY = 1e9
"""Limit in 2001: an earlier time must have been meant as a duration."""

_LATEST_EXPIRY = 1e11
"""Limit in the year 5138: a later time must have been meant in milliseconds or a finer unit."""


def _check_expiry(expiry: object) -> None:
    if isinstance(expiry, bool) or not isinstance(expiry, (int, float)):
        raise TypeError(f"the token provider returned {_kind(expiry)} for the expiry; {_EXPECTED}")
    returned = f"the token provider returned {expiry} for the expiry"
    if not expiry >= _EARLIEST_EXPIRY:  # also refuses NaN
        advice = "add time.time() to it" if expiry > 0 else "such as time.time() + 3600"
        raise TypeError(f"{returned}, which looks like a duration; give seconds since 1970: {advice}")
    if _LATEST_EXPIRY <= expiry < math.inf:
        raise TypeError(f"{returned}, which looks like milliseconds; give seconds since 1970")


def _kind(value: object) -> str:
    # Hide the value, which may be the token.
    return "an empty text" if isinstance(value, str) else f"a value of type {type(value).__name__}"


def _how_to_ask(provider: Any, config: str) -> Callable[[], Any]:
    method = getattr(provider, "token", None)
    if callable(method):
        return method  # type: ignore[no-any-return]
    if not callable(provider):
        raise TypeError("expected a function, or an object with a method token()")
    from inspect import signature  # slow to import, for clients with such a function alone

    try:
        signature(provider).bind()
    except TypeError:
        return lambda: provider(config)  # confluent-kafka passes the setting sasl.oauthbearer.config
    except ValueError:  # functions in C may have no signature
        return lambda: provider(config)
    return provider  # type: ignore[no-any-return]


def _awaited(value: Any) -> Any:
    from inspect import isawaitable

    if not isawaitable(value):
        return value

    import asyncio  # imported here: if unused, its import costs more than everything else

    async def wait() -> Any:
        return await value

    return asyncio.run(wait())
