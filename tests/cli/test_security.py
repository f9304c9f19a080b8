"""`monedula acls`, `users`, `quotas` and `tokens`, on a real Kafka that has an authorizer."""

import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from monedula import Admin
from monedula.admin import DEFAULT, AclBinding, AclFilter, QuotaEntity, ScramCredential, ScramDeletion

from tests.cli.processes import Terminal, output, problem, run
from tests.kafka.secured import ANNA, SecuredKafka

pytestmark = pytest.mark.jvm

_NUMBERS = itertools.count(1)


@pytest.fixture
def admin(secured: SecuredKafka) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": secured.bootstrap}) as made:
        yield made


@pytest.fixture
def user(admin: Admin) -> Iterator[str]:
    """A name of the test's own, which has neither ACLs nor passwords nor quotas afterwards."""
    name = f"cli-{os.getpid()}-{next(_NUMBERS)}"
    yield name
    admin.delete_acls(AclFilter(f"User:{name}"))
    for found in admin.describe_user_scram_credentials(name, errors="return").get(name, ()):
        admin.alter_user_scram_credentials(ScramDeletion(name, found.mechanism))  # type: ignore[arg-type]
    for entity, quotas in admin.describe_client_quotas(user=name).items():
        admin.alter_client_quotas({entity: dict.fromkeys(quotas)})


def test_acls_are_added_listed_and_removed(secured: SecuredKafka, admin: Admin, user: str) -> None:
    who = ("--principal", f"User:{user}")
    output("acls", "add", *who, "--operation", "Read", "--operation", "describe-configs", "--topic", "logs-",
           "--prefixed", "--deny", "--host", "192.0.2.7", servers=secured.bootstrap)  # fmt: skip
    output("acls", "add", *who, "--operation", "alter", "--cluster", servers=secured.bootstrap)
    lines = output("acls", "list", *who, servers=secured.bootstrap).splitlines()
    assert [line.split("\t")[1:] for line in lines] == [
        ["allow", "alter", "cluster", "kafka-cluster", "literal", "*"],
        ["deny", "describe_configs", "topic", "logs-", "prefixed", "192.0.2.7"],
        ["deny", "read", "topic", "logs-", "prefixed", "192.0.2.7"],
    ]
    found = output(
        "acls", "list", *who, "--topic", "logs-app", "--pattern", "match", "--json", servers=secured.bootstrap
    )
    assert [json.loads(line)["operation"] for line in found.splitlines()] == ["describe_configs", "read"]
    asked = run("acls", "remove", *who, "--topic", "logs-", servers=secured.bootstrap)
    assert asked.returncode == 2
    assert f"User:{user} may not read topics that begin with logs- from 192.0.2.7" in asked.stderr.decode()
    assert "add --yes" in asked.stderr.decode().splitlines()[-1]
    removed = run("acls", "remove", *who, "--topic", "logs-", "--yes", servers=secured.bootstrap)
    assert removed.returncode == 0
    assert removed.stderr.decode().splitlines()[-1] == "removed: 2"
    assert admin.describe_acls(AclFilter(f"User:{user}")) == [
        AclBinding(f"User:{user}", "alter", "cluster", "kafka-cluster")
    ]
    assert "no ACL is like that" in problem("acls", "remove", *who, "--topic", "logs-", servers=secured.bootstrap)


def test_acls_say_what_is_missing(secured: SecuredKafka) -> None:
    anna = ("--principal", ANNA.principal)
    assert "--topic" in problem("acls", "add", *anna, "--operation", "read", servers=secured.bootstrap, code=2)
    assert "cluster-action" in problem(
        "acls", "add", *anna, "--operation", "reed", "--topic", "x", servers=secured.bootstrap, code=2
    )
    assert "--all" in problem("acls", "remove", "--yes", servers=secured.bootstrap, code=2)


def test_a_password_comes_from_a_file_or_the_environment(
    secured: SecuredKafka, admin: Admin, user: str, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_text(" with blanks \r\nnot this\n")
    told = run("users", "set", user, "--password-file", str(file), "-m", "sha-256", servers=secured.bootstrap)
    assert told.stderr.decode() == f"set the SCRAM-SHA-256 password of {user}\n"
    run("users", "set", user, "--iterations", "8192", servers=secured.bootstrap, MONEDULA_USER_PASSWORD="secret")
    assert set(admin.describe_user_scram_credentials(user)[user]) == {
        ScramCredential("SCRAM-SHA-256", 4096),
        ScramCredential("SCRAM-SHA-512", 8192),
    }
    rows = output("users", "list", user, servers=secured.bootstrap).splitlines()
    assert sorted(rows) == [f"{user}\tSCRAM-SHA-256\t4096", f"{user}\tSCRAM-SHA-512\t8192"]
    output("users", "delete", user, "--yes", servers=secured.bootstrap)
    assert "RESOURCE_NOT_FOUND" in problem("users", "list", user, servers=secured.bootstrap)


def test_without_a_terminal_a_password_is_not_waited_for(secured: SecuredKafka, user: str) -> None:
    told = problem("users", "set", user, servers=secured.bootstrap, code=2)
    assert "--password-file" in told
    assert "MONEDULA_USER_PASSWORD" in told


def test_a_terminal_is_asked_twice_and_shows_nothing(
    secured: SecuredKafka, admin: Admin, user: str, terminal: Callable[..., Terminal]
) -> None:
    screen = terminal("users", "set", user, servers=secured.bootstrap)
    screen.until(f"Password of {user}:")
    screen.type("canary-1\n")
    screen.until("Again:")
    screen.type("canary-1\n")
    screen.until("set the SCRAM-SHA-512 password")
    assert screen.end() == 0
    assert "canary" not in screen.text
    assert admin.describe_user_scram_credentials(user)


def test_quotas_are_set_listed_and_removed(secured: SecuredKafka, admin: Admin, user: str) -> None:
    whose = ("--user", user, "--default", "client-id")
    output("quotas", "set", "producer_byte_rate=1000", "request_percentage=12.5", *whose, servers=secured.bootstrap)
    entity = QuotaEntity(user=user, client_id=DEFAULT)
    assert list(admin.describe_client_quotas(user=user)) == [entity]
    rows = [
        json.loads(line) for line in output("quotas", "list", *whose, "--json", servers=secured.bootstrap).splitlines()
    ]
    assert [(row["user"], row["client_id"], row["quota"], row["value"]) for row in rows] == [
        (user, "<default>", "producer_byte_rate", 1000.0),
        (user, "<default>", "request_percentage", 12.5),
    ]
    output("quotas", "remove", "producer_byte_rate", *whose, "--yes", servers=secured.bootstrap)
    assert admin.describe_client_quotas(user=user) == {entity: {"request_percentage": 12.5}}
    gone = problem("quotas", "remove", "producer_byte_rate", *whose, "--yes", servers=secured.bootstrap)
    assert "has no quota producer_byte_rate" in gone


def test_tokens_need_a_login(secured: SecuredKafka) -> None:
    assert "logged in by SASL" in problem("tokens", "create", servers=secured.bootstrap)
    assert "expected a time" in problem("tokens", "renew", "x", "--for", "soon", servers=secured.bootstrap, code=2)
