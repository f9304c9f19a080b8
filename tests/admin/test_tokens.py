"""Delegation tokens on a real Kafka: made over a login, and refused where there is none."""

import pytest
from monedula import Admin, ArgumentError, BrokerError
from monedula.admin import DelegationToken, Secret

from tests.kafka.secured import SecuredKafka


@pytest.mark.jvm
def test_a_connection_without_a_login_is_told_what_it_lacks(secured: SecuredKafka) -> None:
    with Admin({"bootstrap.servers": secured.bootstrap}) as admin:
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
