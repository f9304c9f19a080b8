"""ACLs, on both kinds of node. Kafka's own tool reads the ACLs that we write, and we read its."""

import itertools
import os
import re
from collections.abc import Iterator
from typing import get_args

import pytest
from monedula import Admin, ArgumentError
from monedula.admin import AclBinding, AclFilter, AclOperation, Acls
from monedula.errors import AdminErrors, BrokerError

from tests.admin.protected import ProtectedBroker
from tests.interop.java import ACLS, tool
from tests.interop.process import eventually
from tests.kafka import KafkaCluster
from tests.kafka.embedded import EmbeddedCluster
from tests.kafka.secured import ANNA, SecuredKafka

VALID: dict[str, tuple[str, tuple[AclOperation, ...]]] = {
    "topic": (
        "logs",
        ("all", "read", "write", "create", "delete", "alter", "describe", "describe_configs", "alter_configs"),
    ),
    "group": ("etl", ("all", "read", "delete", "describe", "describe_configs", "alter_configs")),
    "cluster": ("kafka-cluster", ("create", "alter", "describe", "cluster_action", "idempotent_write")),
    "transactional_id": ("tx", ("all", "write", "describe")),
    "delegation_token": ("token", ("describe",)),
    "user": ("User:boris", ("create_tokens", "describe_tokens")),
}
"""The operations that Kafka accepts for each type of resource."""

_NUMBERS = itertools.count(1)

Protected = SecuredKafka | ProtectedBroker


@pytest.fixture
def admin(protected: Protected) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": protected.bootstrap}) as made:
        yield made


@pytest.fixture
def principal(admin: Admin) -> Iterator[str]:
    """A principal of the test's own, whose ACLs are deleted afterwards."""
    name = f"User:test-{os.getpid()}-{next(_NUMBERS)}"
    yield name
    admin.delete_acls(AclFilter(name))


def listed(protected: Protected, principal: str) -> set[tuple[str, ...]]:
    """The ACLs that Kafka's tool lists: type, name and pattern of the resource, host, operation, permission."""
    found = set()
    resource: tuple[str, ...] = ()
    for line in tool(ACLS, protected.bootstrap, "--list").splitlines():
        if pattern := re.search(r"resourceType=(\w+), name=(.*), patternType=(\w+)", line):
            resource = pattern.groups()
        if acl := re.search(r"principal=(.*), host=(.*), operation=(\w+), permissionType=(\w+)", line):
            whose, *rest = acl.groups()
            if whose == principal:
                found.add((*resource, *rest))
    return found


def await_described(admin: Admin, wanted: AclFilter, *acls: AclBinding) -> None:
    """Await that a broker describes just these: one of KRaft may not have read yet what the controller wrote."""
    eventually(f"just {acls}", lambda: set(admin.describe_acls(wanted)) == set(acls))


def as_listed(acl: AclBinding) -> tuple[str, ...]:
    resource = acl.resource_type.upper(), acl.resource_name, acl.pattern_type.upper()
    return (*resource, acl.host, acl.operation.upper(), acl.permission_type.upper())


@pytest.mark.jvm
def test_every_kind_of_acl_is_read_by_kafkas_tool(protected: Protected, admin: Admin, principal: str) -> None:
    acls = [
        AclBinding(principal, operation, kind, name)  # type: ignore[arg-type]
        for kind, (name, operations) in VALID.items()
        for operation in operations
    ]
    acls += [
        AclBinding(principal, "write", "topic", "audit-", "prefixed", "deny"),
        AclBinding(principal, "read", "topic", "*", host="192.0.2.7"),
        AclBinding(principal, "read", "group", "žluťoučký", "prefixed", host="2001:db8::1"),
    ]
    assert list(admin.create_acls(acls)) == list(admin.create_acls(acls))  # again: no error
    assert listed(protected, principal) == set(map(as_listed, acls))
    await_described(admin, AclFilter(principal), *acls)


@pytest.mark.jvm
def test_what_kafkas_tool_wrote_is_described(protected: Protected, admin: Admin, principal: str) -> None:
    options = ["--add", "--force", "--topic", "logs-", "--resource-pattern-type", "prefixed"]
    options += ["--deny-principal", principal, "--deny-host", "192.0.2.1", "--operation", "DescribeConfigs"]
    tool(ACLS, protected.bootstrap, *options)
    options = ["--add", "--force", "--user-principal", "User:katya", "--allow-principal", principal]
    tool(ACLS, protected.bootstrap, *options, "--operation", "CreateTokens")
    await_described(
        admin,
        AclFilter(principal),
        AclBinding(principal, "describe_configs", "topic", "logs-", "prefixed", "deny", "192.0.2.1"),
        AclBinding(principal, "create_tokens", "user", "User:katya"),
    )


def test_match_finds_what_applies_to_a_name(admin: Admin, principal: str) -> None:
    literal = AclBinding(principal, "read", "topic", "logs-app")
    prefixed = AclBinding(principal, "read", "topic", "logs-", "prefixed")
    wildcard = AclBinding(principal, "describe", "topic", "*")
    admin.create_acls([literal, prefixed, wildcard, AclBinding(principal, "read", "topic", "logs-app-2")])

    def found(pattern: str) -> set[AclBinding]:
        wanted = AclFilter(principal, resource_type="topic", resource_name="logs-app", pattern_type=pattern)  # type: ignore[arg-type]
        return set(admin.describe_acls(wanted))

    eventually("the bindings", lambda: found("match") == {literal, prefixed, wildcard})
    assert found("literal") == found("any") == {literal}
    assert found("prefixed") == set()


def test_filters_delete_what_they_match_and_say_what_it_was(admin: Admin, principal: str) -> None:
    first, second, third = (AclBinding(principal, "read", "topic", name) for name in ("one", "two", "three"))
    denied = AclBinding(principal, "read", "topic", "two", permission_type="deny")
    admin.create_acls([first, second, third, denied])
    on_two = AclFilter(principal, resource_name="two")
    nothing = AclFilter(principal, "write")
    deleted = admin.delete_acls([on_two, nothing, first])
    assert {key: set(acls) for key, acls in deleted.items()} == {
        on_two: {second, denied},
        nothing: set(),
        AclFilter(principal, "read", "topic", "one", "literal", "allow", "*"): {first},
    }
    await_described(admin, AclFilter(principal), third)


def test_an_acl_that_cannot_be_fails_for_itself(admin: Admin, principal: str) -> None:
    good = AclBinding(principal, "read", "topic", "one")
    bad = AclBinding(principal, "alter", "cluster", "other")
    with pytest.raises(AdminErrors) as raised:
        admin.create_acls([good, bad])
    assert list(raised.value.results) == [good]
    (error,) = raised.value.errors.values()
    assert error.code == "INVALID_REQUEST"
    assert f"creating the ACL (allow {principal} to alter literal cluster other from *)" in str(error)
    await_described(admin, AclFilter(principal), good)


def test_acls_are_a_table(admin: Admin, principal: str) -> None:
    pa = pytest.importorskip("pyarrow")
    admin.create_acls(AclBinding(principal, "read", "topic", "one", host="192.0.2.7"))
    acls = eventually("the binding", lambda: admin.describe_acls(AclFilter(principal)))
    (row,) = pa.table(acls.to_arrow()).to_pylist()
    assert (row["principal"], row["operation"], row["resource_name"], row["host"]) == (
        principal,
        "read",
        "one",
        "192.0.2.7",
    )
    assert pa.table(Acls().to_arrow()).num_rows == 0


def test_all_acls_are_described_without_a_filter(admin: Admin) -> None:
    assert AclBinding(ANNA.principal, "all", "topic", "*") in admin.describe_acls()


def test_words_that_do_not_exist_are_refused_with_those_that_do(admin: Admin) -> None:
    with pytest.raises(ArgumentError, match="expected one of any, all, read, write"):
        admin.describe_acls(AclFilter(operation="reed"))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="'User:anna'"):
        admin.create_acls(AclBinding("anna", "read", "topic", "one"))


def test_a_number_that_the_broker_does_not_know_goes_there_and_is_refused(admin: Admin, principal: str) -> None:
    with pytest.raises(BrokerError) as raised:
        admin.create_acls(AclBinding(principal, "unknown_99", "topic", "one"))  # type: ignore[arg-type]
    assert raised.value.code == "INVALID_REQUEST"


@pytest.mark.parametrize("make", [pytest.param(KafkaCluster, marks=pytest.mark.jvm), EmbeddedCluster])
def test_brokers_without_an_authorizer_say_which_setting_it_is(make: type[KafkaCluster]) -> None:
    acl = AclBinding("User:anna", "read", "topic", "one")
    with make(1) as kafka, Admin({"bootstrap.servers": kafka.bootstrap}) as admin:
        for call in (admin.describe_acls, lambda: admin.create_acls(acl), lambda: admin.delete_acls(acl)):
            with pytest.raises(BrokerError, match=r"authorizer\.class\.name.*StandardAuthorizer") as raised:
                call()
            assert raised.value.code == "SECURITY_DISABLED"


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (AclFilter(), "(all of them)"),
        (
            AclFilter("User:anna", "read", "topic", "orders"),
            "(operation read, resource topic, name orders, principal User:anna)",
        ),
    ],
)
def test_an_error_names_what_restricts_the_filter(wanted: AclFilter, words: str) -> None:
    with EmbeddedCluster(1) as broker, Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        with pytest.raises(BrokerError) as raised:
            admin.describe_acls(wanted)
        assert f"describing the ACLs {words}: No Authorizer" in str(raised.value)


def test_types_have_every_word() -> None:
    used = {operation for _, operations in VALID.values() for operation in operations}
    assert used | {"any", "two_phase_commit"} == set(get_args(AclOperation))
