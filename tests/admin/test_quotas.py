"""Client quotas, on both kinds of node; Kafka's own tool reads the quotas that we write, and we read its."""

import itertools
import os
from collections.abc import Iterator

import pyarrow as pa
import pytest
from monedula import Admin, ArgumentError
from monedula.admin import ANY, DEFAULT, QuotaEntity
from monedula.errors import AdminErrors

from tests.admin.protected import ProtectedBroker
from tests.interop.java import CONFIGS, tool
from tests.interop.process import eventually
from tests.kafka.secured import SecuredKafka

_NUMBERS = itertools.count(1)

Protected = SecuredKafka | ProtectedBroker


@pytest.fixture
def admin(protected: Protected) -> Iterator[Admin]:
    """An administrator; no quota is left afterwards."""
    with Admin({"bootstrap.servers": protected.bootstrap}) as made:
        yield made
        left = made.describe_client_quotas()
        made.alter_client_quotas({entity: dict.fromkeys(quotas) for entity, quotas in left.items()})


def name() -> str:
    return f"test-{os.getpid()}-{next(_NUMBERS)}"


@pytest.mark.jvm
def test_quotas_are_read_by_kafkas_tool(protected: Protected, admin: Admin) -> None:
    user, client_id = name(), name()
    admin.alter_client_quotas(
        {
            QuotaEntity(user=user): {"producer_byte_rate": 1_000_000, "request_percentage": 12.5},
            QuotaEntity(user=user, client_id=client_id): {"consumer_byte_rate": 2_000_000},
            QuotaEntity(ip=DEFAULT): {"connection_creation_rate": 100},
        }
    )
    of_user = tool(CONFIGS, protected.bootstrap, "--describe", "--entity-type", "users", "--entity-name", user)
    assert "producer_byte_rate=1000000.0" in of_user
    assert "request_percentage=12.5" in of_user
    both = ("--entity-type", "users", "--entity-name", user, "--entity-type", "clients", "--entity-name", client_id)
    assert "consumer_byte_rate=2000000.0" in tool(CONFIGS, protected.bootstrap, "--describe", *both)
    of_addresses = tool(CONFIGS, protected.bootstrap, "--describe", "--entity-type", "ips", "--entity-default")
    assert "connection_creation_rate=100.0" in of_addresses


def await_described(admin: Admin, quotas: dict[QuotaEntity, dict[str, float]]) -> None:
    """Await that a broker describes just these: one of KRaft may not have read yet what the controller wrote."""
    eventually(f"just {quotas}", lambda: admin.describe_client_quotas() == quotas)


@pytest.mark.jvm
def test_quotas_that_kafkas_tool_set_are_described(protected: Protected, admin: Admin) -> None:
    user = name()
    tool(CONFIGS, protected.bootstrap, "--alter", "--add-config", "consumer_byte_rate=4096",
         "--entity-type", "users", "--entity-name", user, "--entity-type", "clients", "--entity-default")  # fmt: skip
    entity = QuotaEntity(user=user, client_id=DEFAULT)
    await_described(admin, {entity: {"consumer_byte_rate": 4096.0}})
    found = admin.describe_client_quotas()
    assert pa.table(found.to_arrow()).to_pylist() == [
        {"user": user, "client_id": "<default>", "ip": None, "quota": "consumer_byte_rate", "value": 4096.0}
    ]


def test_arguments_choose_entities(admin: Admin) -> None:
    user, client_id = name(), name()
    alone, default = QuotaEntity(user=user), QuotaEntity(user=DEFAULT)
    both, client = QuotaEntity(user=user, client_id=client_id), QuotaEntity(client_id=client_id)
    admin.alter_client_quotas({each: {"producer_byte_rate": 1000} for each in (alone, default, both, client)})
    eventually("both", lambda: set(admin.describe_client_quotas(user=user)) == {alone, both})
    assert set(admin.describe_client_quotas(user=user, strict=True)) == {alone}
    assert set(admin.describe_client_quotas(user=DEFAULT)) == {default}
    assert set(admin.describe_client_quotas(user=ANY)) == {alone, both, default}
    assert set(admin.describe_client_quotas(user=user, client_id=ANY)) == {both}
    assert set(admin.describe_client_quotas(client_id=client_id)) == {client, both}
    assert set(admin.describe_client_quotas(ip=ANY)) == set()


def test_a_quota_is_removed_and_others_remain(admin: Admin) -> None:
    entity = QuotaEntity(user=name())
    admin.alter_client_quotas({entity: {"producer_byte_rate": 1000, "consumer_byte_rate": 2000}})
    admin.alter_client_quotas({entity: {"producer_byte_rate": None, "request_percentage": 5}}, validate_only=True)
    await_described(admin, {entity: {"producer_byte_rate": 1000.0, "consumer_byte_rate": 2000.0}})
    admin.alter_client_quotas({entity: {"producer_byte_rate": None}})
    await_described(admin, {entity: {"consumer_byte_rate": 2000.0}})


def test_a_quota_that_does_not_exist_fails_for_its_entity(admin: Admin) -> None:
    good, bad = QuotaEntity(user=name()), QuotaEntity(ip="192.0.2.7")
    with pytest.raises(AdminErrors) as raised:
        admin.alter_client_quotas({good: {"producer_byte_rate": 1000}, bad: {"producer_byte_rate": 1000}})
    assert list(raised.value.results) == [good]
    assert raised.value.errors[bad].code == "INVALID_REQUEST"
    assert "changing the quotas of ip 192.0.2.7" in str(raised.value.errors[bad])


def test_arguments_are_checked_before_anything_is_sent() -> None:
    with Admin({"bootstrap.servers": "localhost:1"}) as admin:
        for wrong in (
            {QuotaEntity(): {"producer_byte_rate": 1}},
            {QuotaEntity(user=""): {"producer_byte_rate": 1}},
            {QuotaEntity(user="anna"): {"producer_byte_rate": float("nan")}},
            {QuotaEntity(user="anna"): {"producer_byte_rate": "1"}},
            {"anna": {"producer_byte_rate": 1}},
            "anna",
        ):
            with pytest.raises(ArgumentError):
                admin.alter_client_quotas(wrong)  # type: ignore[arg-type]
