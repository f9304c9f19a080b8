"""SCRAM credentials, on both kinds of node; librdkafka logs in with the passwords that were set."""

import itertools
import os
import pickle
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import monedula
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from monedula import Admin, ArgumentError
from monedula.admin import ScramCredential, ScramDeletion, ScramUpsertion, Secret
from monedula.errors import AdminErrors, BrokerError

from tests.admin.protected import ProtectedBroker
from tests.kafka.secured import ANNA, SCRAM, SecuredKafka, User

PATIENCE_SECONDS = 30.0
CANARY = "canary-7f3a"

_NUMBERS = itertools.count(1)

Protected = SecuredKafka | ProtectedBroker


@pytest.fixture
def admin(protected: Protected) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": protected.bootstrap}) as made:
        yield made


@pytest.fixture
def user(admin: Admin) -> Iterator[str]:
    """A user of the test's own, who is deleted afterwards."""
    name = f"test-{os.getpid()}-{next(_NUMBERS)}"
    yield name
    for credential in admin.describe_user_scram_credentials(name, errors="return").get(name, ()):
        admin.alter_user_scram_credentials(ScramDeletion(name, credential.mechanism))  # type: ignore[arg-type]


def logs_in(protected: Protected, mechanism: str, user: str, password: str) -> bool:
    """Whether the broker accepts the password, which it may get a moment later than the controller."""
    settings = protected.client_settings("SASL_PLAINTEXT", mechanism, User(user, password), names="librdkafka")
    errors: list[KafkaError] = []
    admin = AdminClient({**settings, "error_cb": errors.append})
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        admin.poll(0.05)
        if any(error.code() == KafkaError._AUTHENTICATION for error in errors):
            return False
        try:
            return bool(admin.list_topics(timeout=0.5).brokers)
        except KafkaException:
            continue
    raise AssertionError(f"neither logged in nor refused: {errors}")


def comes_to_log_in(protected: Protected, mechanism: str, user: str, password: str) -> bool:
    """Try to log in until the broker has the password."""
    return _comes_true(lambda: logs_in(protected, mechanism, user, password))


def comes_to_be_refused(protected: Protected, mechanism: str, user: str, password: str) -> bool:
    """Whether the broker refuses the password, once it has the change."""
    return _comes_true(lambda: not logs_in(protected, mechanism, user, password))


def _comes_true(is_so: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            return False
    return True


@pytest.mark.parametrize("mechanism", SCRAM)
def test_a_password_that_was_set_logs_in_until_it_is_deleted(
    protected: Protected, admin: Admin, user: str, mechanism: Any
) -> None:
    password = 'päss\\wörd"=, ;'
    assert list(admin.alter_user_scram_credentials(ScramUpsertion(user, password, mechanism, 8192))) == [
        (user, mechanism)
    ]
    assert comes_to_log_in(protected, mechanism, user, password)
    assert admin.describe_user_scram_credentials(user) == {user: (ScramCredential(mechanism, 8192),)}
    assert not logs_in(protected, mechanism, user, "another")
    admin.alter_user_scram_credentials(ScramDeletion(user, mechanism))
    assert comes_to_be_refused(protected, mechanism, user, password)


def test_credentials_of_both_mechanisms_are_changed_in_one_call(protected: Protected, admin: Admin, user: str) -> None:
    admin.alter_user_scram_credentials([ScramUpsertion(user, "a", "SCRAM-SHA-256"), ScramUpsertion(user, "b")])
    found = {each.mechanism for each in admin.describe_user_scram_credentials(user)[user]}
    assert found == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
    assert comes_to_log_in(protected, "SCRAM-SHA-256", user, "a")
    assert comes_to_log_in(protected, "SCRAM-SHA-512", user, "b")
    admin.alter_user_scram_credentials([ScramDeletion(user, "SCRAM-SHA-256"), ScramUpsertion(user, "c")])
    assert admin.describe_user_scram_credentials(user) == {user: (ScramCredential("SCRAM-SHA-512", 4096),)}


def test_credentials_that_others_set_are_described(admin: Admin) -> None:
    found = admin.describe_user_scram_credentials()
    both = {ScramCredential(mechanism, 4096) for mechanism in SCRAM}
    assert set(found[ANNA.name]) == both
    rows = pa.table(found.to_arrow()).to_pylist()
    assert {"user": ANNA.name, "mechanism": "SCRAM-SHA-256", "iterations": 4096} in rows


def test_a_user_without_credentials_fails_for_itself(admin: Admin) -> None:
    with pytest.raises(AdminErrors) as raised:
        admin.describe_user_scram_credentials([ANNA.name, "nobody"])
    assert list(raised.value.results) == [ANNA.name]
    assert raised.value.errors["nobody"].code == "RESOURCE_NOT_FOUND"
    with pytest.raises(BrokerError, match="changing the SCRAM-SHA-512 credential of user nobody") as alone:
        admin.alter_user_scram_credentials(ScramDeletion("nobody"))
    assert alone.value.code == "RESOURCE_NOT_FOUND"


def test_iterations_that_kafka_does_not_take_are_refused(admin: Admin, user: str) -> None:
    for iterations in (4095, 16385):
        with pytest.raises(BrokerError) as raised:
            admin.alter_user_scram_credentials(ScramUpsertion(user, "secret", iterations=iterations))
        assert raised.value.code == "UNACCEPTABLE_CREDENTIAL"


def test_arguments_are_checked_before_anything_is_sent() -> None:
    admin = Admin({"bootstrap.servers": "localhost:1"})
    for wrong in (
        ScramUpsertion("anna", ""),
        ScramUpsertion("", CANARY),
        ScramUpsertion("anna", CANARY, "SCRAM-SHA-1"),  # type: ignore[arg-type]
        ScramUpsertion("anna", CANARY, iterations=1 << 31),
        ScramUpsertion("anna", CANARY, iterations=2_000_000),
        ScramUpsertion("anna", CANARY, salt=b"short"),
        [ScramUpsertion("anna", CANARY), ScramDeletion("anna")],
    ):
        with pytest.raises(ArgumentError) as raised:
            admin.alter_user_scram_credentials(wrong)  # type: ignore[arg-type]
        told = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
        assert CANARY not in "".join(told.format())
    with pytest.raises(ArgumentError) as raised:
        admin.alter_user_scram_credentials({"anna": CANARY})  # type: ignore[dict-item]
    assert CANARY not in str(raised.value)
    admin.close()


def test_a_password_is_in_no_repr_and_in_no_frame_of_an_error() -> None:
    upsertion = ScramUpsertion("anna", CANARY)
    assert repr(upsertion) == (
        "ScramUpsertion(user='anna', password=Secret(***), mechanism='SCRAM-SHA-512', iterations=4096)"
    )
    assert upsertion.password.expose() == CANARY.encode()
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(upsertion)
    with Admin({"bootstrap.servers": "localhost:1"}) as admin, pytest.raises(monedula.KafkaError) as raised:
        admin.alter_user_scram_credentials(upsertion, timeout=0.2)
    told = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
    assert CANARY not in "".join(told.format())


def test_a_secret_shows_itself_only_when_asked() -> None:
    secret = Secret(CANARY)
    assert (repr(secret), str(secret), f"{secret}") == ("Secret(***)",) * 3
    assert secret == Secret(CANARY.encode()) == Secret(secret)
    assert secret != Secret("other")
    assert not Secret("")
    with pytest.raises(TypeError, match="not int"):
        Secret(7)  # type: ignore[arg-type]
