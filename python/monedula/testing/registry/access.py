"""Who may ask the registry: users with passwords (Basic), and bearers of tokens."""

import base64
import binascii
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Access:
    """Who may ask. Without users and tokens everybody may.

    Attributes:
        users: names with their passwords.
        tokens: tokens with the names of those who bear them.
        verified: the name of who bears a token that is in no list, or `None` if it is not valid.
    """

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    verified: Callable[[str], str | None] | None = None

    @property
    def is_open(self) -> bool:
        """True if everybody may ask."""
        return not (self.users or self.tokens or self.verified)

    def user(self, header: str | None) -> str | None:
        """The name of who sent this header `Authorization`; `None` if nobody who may ask did."""
        scheme, _, credentials = (header or "").partition(" ")
        if scheme.lower() == "basic" and self.users:
            return self._by_password(credentials)
        if scheme.lower() == "bearer":
            for token, user in self.tokens.items():
                if hmac.compare_digest(token.encode(), credentials.encode()):
                    return user
            return self.verified(credentials) if self.verified else None
        return None

    def _by_password(self, credentials: str) -> str | None:
        try:
            user, _, password = base64.b64decode(credentials, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        known = self.users.get(user)
        return user if known is not None and hmac.compare_digest(known.encode(), password.encode()) else None

    @property
    def challenge(self) -> str:
        """The header `WWW-Authenticate` of a refusal."""
        return 'Basic realm="schema registry"' if self.users else "Bearer"
