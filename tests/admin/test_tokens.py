"""Delegation tokens, which need a login; and calls that a user is not authorized for."""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from monedula import Admin, ArgumentError, Producer
from monedula.admin import AclBinding, AclFilter, DelegationToken, QuotaEntity, ScramDeletion, Secret
from monedula.errors import AuthenticationError, AuthorizationError, BrokerError

from tests.admin.protected import ProtectedBroker
from tests.conftest import TopicFactory
from tests.kafka import HelperError
from tests.kafka.secured import ANNA, BORIS, SecuredKafka, jaas
from tests.kafka.secured.users import SCRAM_MODULE

PATIENCE_SECONDS = 30.0

Protected = SecuredKafka | ProtectedBroker


def test_a_connection_without_a_login_is_told_what_it_lacks(protected: Protected) -> None:
    with Admin({"bootstrap.servers": protected.bootstrap}) as admin:
        calls = (
            admin.create_delegation_token,
            admin.describe_delegation_tokens,
            lambda: admin.renew_delegation_token(b"hmac"),
            lambda: admin.expire_delegation_token(b"hmac"),
        )
        for call in calls:
            with pytest.raises(BrokerError, match="logged in by SASL") as raised:
                call()
            assert raised.value.code == "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"


def test_a_token_hides_what_one_logs_in_with() -> None:
    token = DelegationToken("id", Secret(b"hmac-canary"), "User:anna", None, (), 0, 1, 2)
    assert "canary" not in repr(token)
    assert (token.hmac.expose(), token.password.expose()) == (b"hmac-canary", b"aG1hYy1jYW5hcnk=")


def test_arguments_are_checked_before_anything_is_sent() -> None:
    with Admin({"bootstrap.servers": "localhost:1"}) as admin:
        with pytest.raises(ArgumentError, match="User:anna"):
            admin.create_delegation_token(owner="anna")
        with pytest.raises(ArgumentError, match="seconds"):
            admin.create_delegation_token(max_lifetime=-1)
        with pytest.raises(ArgumentError) as raised:
            admin.renew_delegation_token("canary")  # type: ignore[arg-type]
        assert "canary" not in str(raised.value)


@pytest.fixture
def anna(protected: Protected) -> Iterator[Admin]:
    with Admin(protected.client_settings("SASL_PLAINTEXT", "SCRAM-SHA-256", ANNA)) as made:
        yield made


def send(protected: Protected, topic: str, settings: dict[str, Any]) -> int | None:
    """Send a record with Java's producer, or to the embedded broker with ours; its offset."""
    if isinstance(protected, ProtectedBroker):
        with Producer(settings) as producer:
            return producer.send(topic, "x").result(PATIENCE_SECONDS).offset
    return protected.helper.produce(topic, [{"value": "x"}], config=settings)[0].offset


def with_token(protected: Protected, token: DelegationToken) -> dict[str, Any]:
    """Settings of Java's clients for a login with the token."""
    settings = protected.client_settings("SASL_PLAINTEXT", "SCRAM-SHA-256", ANNA)
    password = token.password.expose().decode()
    settings["sasl.jaas.config"] = jaas(SCRAM_MODULE, username=token.token_id, password=password, tokenauth="true")
    return settings


def test_a_token_logs_in_with_the_rights_of_its_owner_until_it_expires(
    protected: Protected, anna: Admin, topic: TopicFactory
) -> None:
    token = anna.create_delegation_token(renewers=BORIS.principal, max_lifetime=timedelta(hours=2))
    assert (token.owner, token.requester, token.renewers) == (ANNA.principal, ANNA.principal, (BORIS.principal,))
    assert token.max_timestamp - token.issue_timestamp == 7_200_000
    name = topic(cluster=protected)  # type: ignore[arg-type]
    settings = {**with_token(protected, token), "max.block.ms": 10_000}
    comes_true(lambda: bool(anna.describe_delegation_tokens(ANNA.principal).get(token.token_id)))
    assert send(protected, name, settings) == 0
    assert anna.describe_delegation_tokens()[token.token_id] == token
    # By the clock of the cluster: the time of the test's may differ from it by a millisecond.
    renewed = anna.renew_delegation_token(token, period=3600)
    later = anna.create_delegation_token()
    assert token.issue_timestamp <= renewed - 3_600_000 <= later.issue_timestamp
    assert anna.renew_delegation_token(token.hmac, period=timedelta(days=1)) == token.max_timestamp
    anna.expire_delegation_token(token)
    comes_true(lambda: token.token_id not in anna.describe_delegation_tokens())
    with pytest.raises(BrokerError) as raised:
        anna.renew_delegation_token(token)
    assert raised.value.code == "DELEGATION_TOKEN_NOT_FOUND"
    with pytest.raises((HelperError, AuthenticationError)):
        send(protected, name, {**settings, "client.id": "after"})


def test_a_token_for_another_user_needs_the_permission(protected: Protected, anna: Admin) -> None:
    with Admin(protected.client_settings("SASL_PLAINTEXT", "SCRAM-SHA-256", BORIS)) as boris:
        with pytest.raises(AuthorizationError) as raised:
            boris.create_delegation_token(owner=ANNA.principal)
        assert raised.value.code == "DELEGATION_TOKEN_AUTHORIZATION_FAILED"
        with Admin({"bootstrap.servers": protected.bootstrap}) as admin:
            acl = AclBinding(BORIS.principal, "create_tokens", "user", ANNA.principal)
            admin.create_acls(acl)
            try:
                token = boris.create_delegation_token(owner=ANNA.principal)
            finally:
                admin.delete_acls(acl)
        assert (token.owner, token.requester) == (ANNA.principal, BORIS.principal)
        comes_true(lambda: token.token_id in anna.describe_delegation_tokens())
        anna.expire_delegation_token(token)


def test_what_is_not_permitted_is_an_authorization_error(protected: Protected) -> None:
    with Admin(protected.client_settings("SASL_PLAINTEXT", "SCRAM-SHA-256", BORIS)) as boris:
        calls = (
            boris.describe_acls,
            lambda: boris.create_acls(AclBinding(BORIS.principal, "read", "topic", "orders")),
            lambda: boris.delete_acls(AclFilter()),
            boris.describe_user_scram_credentials,
            lambda: boris.alter_user_scram_credentials(ScramDeletion("anna")),
            boris.describe_client_quotas,
            lambda: boris.alter_client_quotas({QuotaEntity(user="boris"): {"producer_byte_rate": None}}),
        )
        for call in calls:
            with pytest.raises(AuthorizationError) as raised:
                call()
            assert raised.value.code == "CLUSTER_AUTHORIZATION_FAILED"
            assert isinstance(raised.value, PermissionError)


def comes_true(is_so: Callable[[], bool]) -> None:
    """Repeat until the brokers have got a change."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)
