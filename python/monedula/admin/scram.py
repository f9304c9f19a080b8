"""Users: their SCRAM credentials."""

import secrets
from collections.abc import Iterable
from typing import Any

from monedula._monedula import Secret
from monedula.admin import values
from monedula.admin.arguments import Errors, as_several, check_distinct, raw_name, raw_names, raw_number
from monedula.admin.calls import AdminBase, Call, Method
from monedula.admin.results import Results, of_items
from monedula.admin.security_types import ScramCredential, ScramDeletion, ScramUpsertion
from monedula.admin.views import ScramCredentials
from monedula.errors import ArgumentError

_SALT_BYTES = 24
_LEAST_SALT_BYTES = 16

Alteration = ScramUpsertion | ScramDeletion


class ScramMethods(AdminBase):
    """Methods about SCRAM credentials."""

    @Method
    def describe_user_scram_credentials(
        self,
        users: str | Iterable[str] | None = None,
        *,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Call[ScramCredentials]:
        """The SCRAM credentials of users, by user; as a table, one row for each credential (KIP-554, Kafka 2.7 on).

        Args:
            users: names; all users that have credentials if left out.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            AuthorizationError: without the permission DESCRIBE on the cluster.
            BrokerError: `RESOURCE_NOT_FOUND` for a user without credentials.
        """
        names = None if users is None else raw_names(users, "user")
        operation = self._security.describe_user_scram_credentials(timeout, names)
        return of_items(operation, ScramCredentials, str, _credentials, errors)

    @Method
    def alter_user_scram_credentials(
        self,
        alterations: Alteration | Iterable[Alteration],
        *,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Call[Results[tuple[str, str], None]]:
        """Set passwords of users, and delete them (KIP-554, Kafka 2.7 on); by user and mechanism.

        The password itself is not sent, but whoever reads the request can log in with it: use a connection with TLS.

        Args:
            alterations: `ScramUpsertion`s and `ScramDeletion`s.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            AuthorizationError: without the permission ALTER on the cluster.
            BrokerError: `RESOURCE_NOT_FOUND` for a credential to delete that does not exist;
                `UNACCEPTABLE_CREDENTIAL` for too few or too many iterations.
        """
        single = isinstance(alterations, Alteration)
        expected = "a ScramUpsertion, a ScramDeletion, or several"
        raw = [_raw(each) for each in ([alterations] if single else as_several(alterations, expected))]
        check_distinct([f"{mechanism} of {user}" for user, mechanism, _ in raw], "credential")
        operation = self._security.alter_user_scram_credentials(timeout, raw)
        return of_items(operation, Results[tuple[str, str], None], tuple, values.nothing, errors)


_Raw = tuple[str, str, tuple[int, bytes, Secret] | None]


def _raw(alteration: object) -> _Raw:
    if isinstance(alteration, ScramDeletion):
        return raw_name(alteration.user, "user"), alteration.mechanism, None
    if not isinstance(alteration, ScramUpsertion):
        # Hide the value, which may be a password.
        raise ArgumentError(f"a {type(alteration).__name__}: expected a ScramUpsertion or a ScramDeletion")
    user = raw_name(alteration.user, "user")
    if not alteration.password:
        raise ArgumentError(f"the password of {user} is empty")
    iterations = raw_number(alteration.iterations, "number of iterations", least=1)
    salt = secrets.token_bytes(_SALT_BYTES) if alteration.salt is None else alteration.salt
    if not isinstance(salt, bytes) or len(salt) < _LEAST_SALT_BYTES:
        raise ArgumentError(f"the salt of {user}: expected at least {_LEAST_SALT_BYTES} random bytes")
    return user, alteration.mechanism, (iterations, salt, alteration.password)


def _credentials(_: object, raw: Any) -> tuple[ScramCredential, ...]:
    return tuple(ScramCredential(mechanism, iterations) for mechanism, iterations in raw)
