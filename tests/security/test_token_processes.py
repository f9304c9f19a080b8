"""A source of tokens is the user's code, on a thread of its own: as the process forks, ends, and goes on."""

import time

import monedula
import pytest
from monedula.testing import Broker

from tests.runtime.script import run

PATIENCE_SECONDS = 30.0
LOGIN = """
import monedula.testing
broker = monedula.testing.Broker(security="SASL_SSL", users={"anna": "x"}, topics={"orders": 1})
settings = broker.client_settings("anna", mechanism="OAUTHBEARER")
asked = threading.Event()
"""

HANGING = """
def hang():
    asked.set()
    threading.Event().wait()

consumer = monedula.Consumer({**settings, "oauth_cb": hang})
consumer.assign({("orders", 0): 0})
consumer.poll(timeout=0.01)
assert asked.wait(30)
"""


@pytest.mark.parametrize("end", ["", "consumer.close()", "del consumer; gc.collect()", "sys.exit(0)"])
def test_a_process_ends_while_its_source_of_tokens_hangs(end: str) -> None:
    run(LOGIN + HANGING + end)


def test_a_process_ends_while_its_source_of_tokens_raises_and_is_asked_again() -> None:
    run(
        LOGIN
        + """
def fail():
    asked.set()
    raise RuntimeError("sealed")

quick = {"sasl.login.retry.backoff.ms": 1, "sasl.login.retry.backoff.max.ms": 1}
admin = monedula.Admin({**settings, **quick, "oauth_cb": fail, "bootstrap.timeout.ms": 200})
try:
    admin.list_topics()
except monedula.errors.AuthenticationError:
    pass
assert asked.is_set()
"""
    )


def test_a_child_that_is_forked_while_a_token_is_fetched_has_clients_of_its_own() -> None:
    """The parent's login goes on; the child may not use its client, and fetches tokens for another."""
    run(
        LOGIN
        + """
released = threading.Event()

def token():
    asked.set()
    released.wait()
    return broker.mint_token("anna")

def at_once():
    return minted

minted = broker.mint_token("anna")
producer = monedula.Producer({**settings, "oauth_cb": token})
future = producer.send("orders", b"of the parent")
assert asked.wait(30)
child = os.fork()
if child == 0:
    signal.alarm(120)
    try:
        producer.send("orders", b"of the child")
        os._exit(3)
    except monedula.errors.ForkError:
        pass
    with monedula.Producer({**settings, "oauth_cb": at_once}) as own:
        own.send("orders", b"of the child").result(15)
    os._exit(7)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 7, os.waitstatus_to_exitcode(status)
released.set()
future.result(30)
producer.close()
stream = monedula.read({**settings, "oauth_cb": at_once}, "orders")
values = [record.value for batch in stream for record in batch.records()]
assert sorted(values) == [b"of the child", b"of the parent"], values
"""
    )


def test_a_token_of_another_principal_leads_to_a_new_connection() -> None:
    """Kafka takes no other principal over the same one, so re-authentication fails; nothing that is sent is lost."""
    users = {"anna": "x", "boris": "x"}
    with Broker(security="SASL_SSL", users=users, topics={"orders": 1}, max_reauth_ms=1500) as broker:
        names = iter(["anna"])

        def token() -> tuple[str, float]:
            return broker.mint_token(next(names, "boris")), time.time() + 2

        settings = broker.client_settings("anna", mechanism="OAUTHBEARER")
        refresh = {"sasl.login.refresh.min.period.seconds": "0", "sasl.login.refresh.buffer.seconds": "0"}
        sent = 0
        with monedula.Producer({**settings, **refresh, "oauth_cb": token}) as producer:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while "User:boris" not in {connection.principal for connection in broker.connections()}:
                assert time.monotonic() < deadline, producer.health()
                producer.send("orders", b"x").result(PATIENCE_SECONDS)
                sent += 1
            producer.send("orders", b"x").result(PATIENCE_SECONDS)
        table = monedula.read({**settings, "oauth_cb": token}, "orders")
        assert sum(batch.num_rows for batch in table) == sent + 1
