"""ACLs: the permissions of principals."""

from collections.abc import Iterable
from typing import Any

from monedula.admin import values
from monedula.admin.arguments import Errors, as_several, raw_name
from monedula.admin.calls import AdminBase, Call, Method
from monedula.admin.results import Results, of_items
from monedula.admin.security_types import AclBinding, AclFilter
from monedula.admin.views import Acls
from monedula.errors import ArgumentError

_Raw = tuple[str, str, str, str, str, str, str]
_RawFilter = tuple[str, str | None, str, str | None, str | None, str, str]


class AclMethods(AdminBase):
    """Methods about ACLs."""

    @Method
    def describe_acls(self, acls: AclFilter | AclBinding | None = None, *, timeout: float | None = None) -> Call[Acls]:
        """The ACLs that a filter matches, as a list; also as a table.

        Args:
            acls: the filter; all ACLs if left out.
            timeout: seconds.

        Raises:
            AuthorizationError: without the permission DESCRIBE on the cluster.
            BrokerError: `SECURITY_DISABLED` if the brokers have no authorizer; the message names the setting.
        """
        raw = _raw_filter(AclFilter() if acls is None else acls)
        return Call(
            self._security.describe_acls(timeout, raw),
            lambda answer: Acls(map(_binding, answer)),
        )

    @Method
    def create_acls(
        self, acls: AclBinding | Iterable[AclBinding], *, timeout: float | None = None, errors: Errors = "raise"
    ) -> Call[Results[AclBinding, None]]:
        """Create ACLs. One that exists is left as it is.

        Args:
            acls: one or several.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            AuthorizationError: without the permission ALTER on the cluster.
            BrokerError: `INVALID_REQUEST` for an invalid ACL, such as one on a cluster of another name.
        """
        given = [acls] if isinstance(acls, AclBinding) else as_several(acls, "an AclBinding, or several")
        raw = [_raw(each) for each in given]
        operation = self._security.create_acls(timeout, raw)
        return of_items(operation, Results[AclBinding, None], _binding, values.nothing, errors)

    @Method
    def delete_acls(
        self,
        acls: AclFilter | AclBinding | Iterable[AclFilter | AclBinding],
        *,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Call[Results[AclFilter, tuple[AclBinding, ...]]]:
        """Delete the ACLs that filters match. Returns the ACLs that each filter deleted; none is no error.

        If a response is lost, the request is sent again, and the result lacks the ACLs that the first request deleted.

        Args:
            acls: filters; an `AclBinding` is a filter that matches itself.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            AuthorizationError: without the permission ALTER on the cluster.
            BrokerError: `SECURITY_DISABLED` if the brokers have no authorizer.
        """
        single = isinstance(acls, AclFilter | AclBinding)
        given: list[object] = [acls] if single else as_several(acls, "an AclFilter, an AclBinding, or several")
        raw = [_raw_filter(each) for each in given]
        operation = self._security.delete_acls(timeout, raw)
        return of_items(operation, Results[AclFilter, tuple[AclBinding, ...]], _filter, _bindings, errors)


def _raw(acl: object) -> _Raw:
    if not isinstance(acl, AclBinding):
        raise ArgumentError(f"{acl!r}: expected an AclBinding")
    return (
        acl.resource_type,
        raw_name(acl.resource_name, "resource"),
        acl.pattern_type,
        _raw_principal(acl.principal),
        raw_name(acl.host, "host"),
        acl.operation,
        acl.permission_type,
    )


def _raw_filter(acls: object) -> _RawFilter:
    if isinstance(acls, AclBinding):
        return _raw(acls)
    if not isinstance(acls, AclFilter):
        raise ArgumentError(f"{acls!r}: expected an AclFilter or an AclBinding")
    return (
        acls.resource_type,
        acls.resource_name,
        acls.pattern_type,
        None if acls.principal is None else _raw_principal(acls.principal),
        acls.host,
        acls.operation,
        acls.permission_type,
    )


def _raw_principal(principal: object) -> str:
    name = raw_name(principal, "principal")
    if ":" not in name:
        raise ArgumentError(f"{principal!r} is no principal: expected its type too, such as 'User:{principal}'")
    return name


def _binding(raw: Any) -> AclBinding:
    resource_type, resource_name, pattern_type, principal, host, operation, permission_type = raw
    return AclBinding(principal, operation, resource_type, resource_name, pattern_type, permission_type, host)


def _filter(raw: Any) -> AclFilter:
    resource_type, resource_name, pattern_type, principal, host, operation, permission_type = raw
    return AclFilter(principal, operation, resource_type, resource_name, pattern_type, permission_type, host)


def _bindings(_: object, raw: Any) -> tuple[AclBinding, ...]:
    return tuple(map(_binding, raw))
