"""The types of `Admin`'s methods about ACLs, SCRAM credentials, client quotas and delegation tokens."""

import base64
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal

from monedula._monedula import Secret

AclResourceType = Literal["any", "topic", "group", "cluster", "transactional_id", "delegation_token", "user"]
"""The type of a resource. `"any"` is for filters only. `"user"` (KIP-373) is a user for whom others create tokens."""

AclPatternType = Literal["any", "match", "literal", "prefixed"]
"""The comparison of names (KIP-290). `"any"` and `"match"` are for filters only."""

AclOperation = Literal[
    "any",
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster_action",
    "describe_configs",
    "alter_configs",
    "idempotent_write",
    "create_tokens",
    "describe_tokens",
    "two_phase_commit",
]
"""An operation. `"any"` is for filters only; `"all"` is every operation on the resource."""

AclPermissionType = Literal["any", "deny", "allow"]
"""The effect of an ACL; `"deny"` wins over `"allow"`. `"any"` is for filters only."""

ScramMechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]

CLUSTER = "kafka-cluster"
"""The name of the only resource of type `"cluster"`."""


@dataclass(frozen=True, slots=True)
class AclBinding:
    """An ACL: one permission of one principal.

    Values of a newer broker that the types here do not name are called `unknown_` with Kafka's number; they can be sent
    back to the broker.

    Examples:
        AclBinding("User:anna", "read", "topic", "orders")
        AclBinding("User:*", "write", "topic", "audit-", pattern_type="prefixed", permission_type="deny")
    """

    principal: str
    """The principal with its type, such as `"User:anna"`; `"User:*"` for all."""
    operation: AclOperation
    resource_type: AclResourceType
    resource_name: str
    """The name of the resource, its prefix, or `"*"` for all; `"kafka-cluster"` for the cluster."""
    pattern_type: AclPatternType = "literal"
    permission_type: AclPermissionType = "allow"
    host: str = "*"
    """The address that the client connects from, or `"*"` for all."""


@dataclass(frozen=True, slots=True)
class AclFilter:
    """A filter of ACLs: it matches those that are equal in every attribute that is set."""

    principal: str | None = None
    operation: AclOperation = "any"
    resource_type: AclResourceType = "any"
    resource_name: str | None = None
    pattern_type: AclPatternType = "any"
    """With `"match"`, `resource_name` finds the ACLs that apply to the resource of this name."""
    permission_type: AclPermissionType = "any"
    host: str | None = None


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """A SCRAM credential of a user, without its secret parts."""

    mechanism: str
    iterations: int


@dataclass(frozen=True, slots=True, init=False)
class ScramUpsertion:
    """Sets the password of a user for one mechanism. Only its salted hash is sent (KIP-554).

    Args:
        user: the name of the user, without `User:`.
        password: the password, as text (its UTF-8 is taken as it is), as bytes, or as a `Secret`.
        mechanism: the mechanism; a user may have a password for each.
        iterations: of PBKDF2; Kafka takes 4096 to 16384.
        salt: at least 16 random bytes; drawn if left out.
    """

    user: str
    password: Secret
    mechanism: ScramMechanism
    iterations: int
    salt: bytes | None = field(repr=False)

    def __init__(
        self,
        user: str,
        password: str | bytes | Secret,
        mechanism: ScramMechanism = "SCRAM-SHA-512",
        iterations: int = 4096,
        salt: bytes | None = None,
    ) -> None:
        # Checked here, so that no traceback has a frame with the password in it.
        for name, value in (("user", user), ("mechanism", mechanism), ("iterations", iterations), ("salt", salt)):
            object.__setattr__(self, name, value)
        # Set first: if the next line raises, a tool that shows locals shows this object.
        object.__setattr__(self, "password", Secret(b""))
        try:
            object.__setattr__(self, "password", Secret(password))
        finally:
            del password


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """Deletes the credential of a user for one mechanism."""

    user: str
    mechanism: ScramMechanism = "SCRAM-SHA-512"


class QuotaName(Enum):
    """Placeholders for the names of entities in quotas."""

    DEFAULT = "default"
    """The default quota, for entities that have none of their own."""
    ANY = "any"
    """Any name, and the default; only to describe quotas."""


DEFAULT: Final = QuotaName.DEFAULT
ANY: Final = QuotaName.ANY


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """The entity of a quota: a user, a client id, a user with a client id, or an address.

    Examples:
        QuotaEntity(user="anna")
        QuotaEntity(user=DEFAULT, client_id="reports")
        QuotaEntity(ip="192.0.2.7")
    """

    user: str | Literal[QuotaName.DEFAULT] | None = None
    client_id: str | Literal[QuotaName.DEFAULT] | None = None
    ip: str | Literal[QuotaName.DEFAULT] | None = None
    others: tuple[tuple[str, str | None], ...] = ()
    """Types of a newer broker, with their names; `None` is the default."""


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A delegation token (KIP-48): whoever has it may log in by SCRAM with the permissions of its owner."""

    token_id: str
    """The id, which is the user name of a login with it."""
    hmac: Secret
    owner: str
    """The principal whose permissions it has, such as `"User:anna"`."""
    requester: str | None
    """The principal that asked for it; `None` from brokers before 3.3."""
    renewers: tuple[str, ...]
    """The principals that may renew it besides its owner."""
    issue_timestamp: int
    """The time at which it was issued, in milliseconds since 1970."""
    expiry_timestamp: int
    """The time at which it expires unless it is renewed, in milliseconds since 1970."""
    max_timestamp: int
    """The time until which it can be renewed, in milliseconds since 1970."""

    @property
    def password(self) -> Secret:
        """The password of a login with the token: its HMAC in base64."""
        return Secret(base64.b64encode(self.hmac.expose()))
