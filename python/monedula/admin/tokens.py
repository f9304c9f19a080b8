"""Delegation tokens."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from monedula._monedula import Secret
from monedula.admin.arguments import raw_names
from monedula.admin.calls import AdminBase, Call, Method
from monedula.admin.security_types import DelegationToken
from monedula.admin.views import DelegationTokens
from monedula.errors import ArgumentError

Period = float | timedelta

Token = DelegationToken | Secret | bytes

_BROKERS_CHOICE = -1
_AT_ONCE = -1


class TokenMethods(AdminBase):
    """Methods about delegation tokens.

    They work over connections that logged in: by SASL, or by TLS with a client certificate; but not with a token.
    """

    @Method
    def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: str | Iterable[str] = (),
        max_lifetime: Period | None = None,
        timeout: float | None = None,
    ) -> Call[DelegationToken]:
        """Create a delegation token (KIP-48).

        If a response is lost, the request is sent again: then there are two tokens, and the first is never returned.

        Args:
            owner: the principal whose rights the token has, such as `"User:anna"`; by default the one that is logged
                in. For another one (KIP-373, Kafka 3.3 on), the permission CREATE_TOKENS on that user is needed.
            renewers: principals that may renew the token besides its owner.
            max_lifetime: until when it can be renewed, in seconds or as a timedelta; the broker's
                `delegation.token.max.lifetime.ms` at most, and if left out.
            timeout: seconds.

        Returns:
            The token, with its HMAC, which is a secret.

        Raises:
            AuthorizationError: without the permission to create a token for that owner.
            BrokerError: `DELEGATION_TOKEN_AUTH_DISABLED` or `DELEGATION_TOKEN_REQUEST_NOT_ALLOWED`; the message says
                what the brokers or the login lack.
        """
        names = raw_names(renewers, "principal")
        lifetime_ms = _milliseconds(max_lifetime, "max_lifetime", _BROKERS_CHOICE)
        return Call(
            self._security.create_delegation_token(timeout, owner, names, lifetime_ms),
            _token,
        )

    @Method
    def renew_delegation_token(
        self, token: Token, *, period: Period | None = None, timeout: float | None = None
    ) -> Call[int]:
        """Make a token valid for some time from now on; returns when it expires, in milliseconds since 1970.

        Args:
            token: the token or its HMAC.
            period: for how long, but not beyond the token's `max_timestamp`: seconds or a timedelta; the broker's
                `delegation.token.expiry.time.ms` if left out.
            timeout: seconds.

        Raises:
            BrokerError: `DELEGATION_TOKEN_NOT_FOUND`; `DELEGATION_TOKEN_EXPIRED`; `DELEGATION_TOKEN_OWNER_MISMATCH` if
                the logged-in principal may not renew it.
        """
        hmac, period_ms = _hmac(token), _milliseconds(period, "period", _BROKERS_CHOICE)
        return Call(self._security.renew_delegation_token(timeout, hmac, period_ms), int)

    @Method
    def expire_delegation_token(
        self, token: Token, *, after: Period | None = None, timeout: float | None = None
    ) -> Call[int | None]:
        """Delete a token, or let it expire earlier; returns when it expires, in milliseconds since 1970.

        `None` is returned if the response was lost, and the token was gone when the request was sent again.

        Args:
            token: the token or its HMAC.
            after: in which time it expires, in seconds or as a timedelta; at once if left out: it is deleted then.
            timeout: seconds.

        Raises:
            BrokerError: as `renew_delegation_token`.
        """
        hmac, period_ms = _hmac(token), _milliseconds(after, "after", _AT_ONCE)
        return Call(
            self._security.expire_delegation_token(timeout, hmac, period_ms),
            lambda answer: answer,
        )

    @Method
    def describe_delegation_tokens(
        self, owners: str | Iterable[str] | None = None, *, timeout: float | None = None
    ) -> Call[DelegationTokens]:
        """The tokens by token id; also as a table, which leaves the HMACs out.

        Args:
            owners: only tokens of these principals, such as `"User:anna"`; by default all that the logged-in principal
                owns, may renew, or has the permission DESCRIBE for.
            timeout: seconds.

        Raises:
            BrokerError: `DELEGATION_TOKEN_AUTH_DISABLED` or `DELEGATION_TOKEN_REQUEST_NOT_ALLOWED`.
        """
        names = None if owners is None else raw_names(owners, "principal")
        return Call(
            self._security.describe_delegation_tokens(timeout, names),
            lambda answer: DelegationTokens((raw[0], _token(raw)) for raw in answer),
        )


def _hmac(token: object) -> Secret:
    if isinstance(token, DelegationToken):
        return token.hmac
    if isinstance(token, Secret | bytes) and token:
        return Secret(token)
    raise ArgumentError(f"a {type(token).__name__}: expected a DelegationToken, or the HMAC of one as bytes")


def _milliseconds(period: object, what: str, left_out: int) -> int:
    if period is None:
        return left_out
    seconds = period.total_seconds() if isinstance(period, timedelta) else period
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < 1 << 50:
        raise ArgumentError.of(what, period, "expected seconds, 0 or more, or a timedelta")
    return int(seconds * 1000)


def _token(raw: Any) -> DelegationToken:
    token_id, hmac, owner, requester, renewers, issue_timestamp, expiry_timestamp, max_timestamp = raw
    timestamps = (issue_timestamp, expiry_timestamp, max_timestamp)
    return DelegationToken(token_id, hmac, owner, requester, tuple(renewers), *timestamps)
