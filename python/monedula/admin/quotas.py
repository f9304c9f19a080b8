"""Client quotas: limits on users, client ids and addresses."""

import math
from collections.abc import Mapping
from typing import Any, Literal

from monedula._arguments import truth
from monedula.admin import values
from monedula.admin.arguments import Errors, as_mapping, raw_name
from monedula.admin.calls import AdminBase, Call, Method
from monedula.admin.results import Results, of_items
from monedula.admin.security_types import DEFAULT, QuotaEntity, QuotaName
from monedula.admin.views import ClientQuotas
from monedula.errors import ArgumentError

Wanted = str | Literal[QuotaName.DEFAULT, QuotaName.ANY] | None
"""The names to describe: one name, `DEFAULT` or `ANY`; `None` for entities with or without this type."""

_TYPES = {"user": "user", "client-id": "client_id", "ip": "ip"}
"""Kafka's names for types of entities, and the attributes of `QuotaEntity`."""


class QuotaMethods(AdminBase):
    """Methods about client quotas."""

    @Method
    def describe_client_quotas(
        self,
        *,
        user: Wanted = None,
        client_id: Wanted = None,
        ip: Wanted = None,
        strict: bool = False,
        timeout: float | None = None,
    ) -> Call[ClientQuotas]:
        """The quotas by entity, each a dict by name; as a table, one row for each quota (KIP-546, Kafka 2.6 on).

        Without arguments, all quotas.

        Args:
            user: only entities with this user, with the default (`DEFAULT`), or with any of these (`ANY`).
            client_id: likewise.
            ip: likewise, an address (KIP-612, Kafka 2.7 on).
            strict: leave out entities that have a type for which nothing is given here, such as the client id.
            timeout: seconds.

        Raises:
            AuthorizationError: without the permission DESCRIBE_CONFIGS on the cluster.
        """
        wanted = {"user": user, "client-id": client_id, "ip": ip}
        raw = [_raw_wanted(kind, name) for kind, name in wanted.items() if name is not None]
        return Call(
            self._security.describe_client_quotas(timeout, raw, truth("strict", strict)),
            lambda answer: ClientQuotas((_entity(entity), quotas) for entity, quotas in answer),
        )

    @Method
    def alter_client_quotas(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Call[Results[QuotaEntity, None]]:
        """Set or remove quotas, and leave the others of the entity as they are (KIP-546, Kafka 2.6 on).

        Args:
            quotas: for each entity its quotas: a number, or `None` to remove it. Names are `producer_byte_rate` and
                `consumer_byte_rate` (bytes a second for each broker), `request_percentage`,
                `controller_mutation_rate`, and for addresses `connection_creation_rate`.
            validate_only: only check whether the quotas could be set.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            AuthorizationError: without the permission ALTER_CONFIGS on the cluster.
            BrokerError: `INVALID_REQUEST` for a quota that does not exist, or does not apply to such an entity.
        """
        raw = []
        for entity, each in as_mapping(quotas, "{QuotaEntity(user='anna'): {'producer_byte_rate': 1e6}}").items():
            named = as_mapping(each, "{'producer_byte_rate': 1e6}")
            raw.append(
                (_raw_entity(entity), {raw_name(name, "quota"): _raw_quota(name, at) for name, at in named.items()})
            )
        operation = self._security.alter_client_quotas(timeout, raw, truth("validate_only", validate_only))
        return of_items(operation, Results[QuotaEntity, None], _entity, values.nothing, errors)


def _raw_wanted(kind: str, name: object) -> tuple[str, str, str | None]:
    if isinstance(name, QuotaName):
        return kind, name.value, None
    return kind, "name", raw_name(name, kind)


def _raw_entity(entity: object) -> list[tuple[str, str | None]]:
    if not isinstance(entity, QuotaEntity):
        raise ArgumentError(f"{entity!r}: expected a QuotaEntity, such as QuotaEntity(user='anna')")
    named = [(kind, getattr(entity, attribute)) for kind, attribute in _TYPES.items()]
    raw = [(kind, None if name is DEFAULT else raw_name(name, kind)) for kind, name in named if name is not None]
    if not raw and not entity.others:
        raise ArgumentError("an empty QuotaEntity: name a user, a client id or an address, or its DEFAULT")
    return [*raw, *entity.others]


def _raw_quota(name: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ArgumentError.of(name, value, "expected a number, or None to remove the quota")
    return float(value)


def _entity(raw: Any) -> QuotaEntity:
    known: dict[str, Any] = {}
    others = []
    for kind, name in raw:
        if kind in _TYPES:
            known[_TYPES[kind]] = DEFAULT if name is None else name
        else:
            others.append((kind, name))
    return QuotaEntity(**known, others=tuple(others))
