"""Programs whose threads gevent or eventlet have replaced with greenlets."""

import pytest

from tests.runtime.script import run

PATCHES = {
    "gevent": """
import gevent
from gevent import monkey
monkey.patch_all()
spawn, pause = gevent.spawn, gevent.sleep
""",
    "eventlet": """
import warnings
warnings.simplefilter("ignore")  # eventlet calls itself deprecated
import eventlet
eventlet.monkey_patch()
spawn, pause = eventlet.spawn, eventlet.sleep
""",
}

SCRIPT = """
from monedula.testing import Broker

ticks = 0

def tick():
    global ticks
    while True:
        ticks += 1
        pause(0.001)

broker = Broker(topics={"orders": 2})
for number in range(20):
    broker.append("orders", [b"%d" % number])
settings = {"bootstrap.servers": broker.bootstrap_servers}
group = {**settings, "group.id": "g", "auto.offset.reset": "earliest"}
spawn(tick)
pause(0)

def others_ran(call, held=()):
    "What the call returns, which waits until other greenlets have run: one of them releases what faults hold."
    before = ticks

    def release():
        while ticks <= before + 1:
            pause(0.001)
        for fault in held:
            fault.remove()

    spawn(release)
    result = call()
    assert ticks > before, "all greenlets waited"
    return result
"""


@pytest.fixture(params=["gevent", "eventlet"])
def library(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["before", "after"])
def when(request: pytest.FixtureRequest) -> str:
    """When the program patches: before or after it imports monedula."""
    return str(request.param)


def patched(library: str, when: str, code: str) -> str:
    patch = PATCHES[library]
    if when == "before":
        return run(SCRIPT + code, before=patch)
    return run(patch + SCRIPT + code)


def test_callbacks_of_records_run_and_a_wait_for_them_stops_no_greenlet(library: str, when: str) -> None:
    code = """
heard = []
with monedula.Producer(settings, linger_ms=50) as producer:
    held = broker.fault(api="Produce", hold=True)
    for number in range(100):
        producer.send("orders", b"a", on_delivery=heard.append)
    others_ran(producer.flush, [held])
    assert len(heard) == 100
    held = broker.fault(api="Produce", hold=True)
    assert others_ran(producer.send("orders", b"a").result, [held]).offset is not None
print(len(heard))
"""
    assert patched(library, when, code) == "100\n"


def test_run_calls_its_handlers_and_they_may_wait(library: str, when: str) -> None:
    code = """
seen = []
def handle(record):
    pause(0.001)
    seen.append(record.value)

with monedula.Consumer(group, topics=["orders"]) as consumer:
    held = broker.fault(api="Fetch", hold=True)
    others_ran(lambda: consumer.run(handle, concurrency=4, until="latest"), [held])
print(len(set(seen)))
"""
    assert patched(library, when, code) == "20\n"


def test_a_function_as_partitioner_and_an_assignor_are_called(library: str, when: str) -> None:
    code = """
class Mine:
    name = "mine"
    def assign(self, topics, members):
        return {members[0].member_id: [(topic, index) for topic, count in topics.items() for index in range(count)]}

with monedula.Producer(settings, partitioner=lambda topic, key, value, count: 1) as producer:
    assert producer.send("orders", b"a").result().partition == 1
with monedula.Consumer(group, topics=["orders"], assignors=[Mine()]) as consumer:
    rows = 0
    while rows < 21:
        rows += len(consumer.poll(30))
print(rows)
"""
    assert patched(library, when, code) == "21\n"


@pytest.mark.parametrize(
    ("wait", "api"),
    [
        ("consumer.poll(0.2)", None),
        ("list(consumer.batches(timeout=0.2))", None),
        ("consumer.commit({('orders', 0): 1})", "OffsetCommit"),
        ("consumer.end_offsets([('orders', 0)])", "ListOffsets"),
        ("sum(map(len, monedula.read(settings, 'orders')))", "ListOffsets"),
        ("admin.list_topics()", "Metadata"),
    ],
)
def test_a_wait_stops_no_other_greenlet(library: str, wait: str, api: str | None) -> None:
    code = f"""
with monedula.Consumer(group) as consumer, monedula.Admin(settings) as admin:
    consumer.subscribe(["orders"])
    while not consumer.assignment():
        consumer.poll(0.1)
    while len(consumer.poll(1)):
        pass
    others_ran(lambda: {wait}, [broker.fault(api=api, hold=True) for api in {[api] if api else []}])
print("ran")
"""
    assert patched(library, "before", code) == "ran\n"


def test_a_token_provider_may_wait_as_greenlets_do(library: str) -> None:
    code = """
secured = Broker(security="SASL_SSL", users={"anna": "x"}, topics={"orders": 1})

def token():
    pause(0.05)
    time.sleep(0.05)
    return secured.mint_token("anna"), time.time() + 600

with monedula.Producer({**secured.client_settings("anna", mechanism="OAUTHBEARER"), "oauth_cb": token}) as producer:
    print(others_ran(lambda: producer.send("orders", b"a").result()).offset)
"""
    assert patched(library, "before", code) == "0\n"


def test_log_events_are_passed_on_by_the_greenlets_that_call(library: str, when: str) -> None:
    code = """
import logging
lock = threading.Lock()
heard = []

class Handler(logging.Handler):
    def emit(self, record):
        with lock:
            pause(0)
            heard.append(record.getMessage())

logging.getLogger("monedula").addHandler(Handler())
logging.getLogger("monedula").setLevel(logging.DEBUG)

def work():
    with monedula.Producer(settings) as producer:
        for _ in range(20):
            producer.send("orders", b"a", on_delivery=lambda _: None).result()

workers = [threading.Thread(target=work) for _ in range(4)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
assert len(heard) > 100, heard
print("heard")
"""
    assert patched(library, when, code) == "heard\n"


def test_the_embedded_registry_answers(library: str) -> None:
    code = """
import pyarrow
with Broker(topics={"typed": 1}, registry=True) as registered:
    typed = {"bootstrap.servers": registered.bootstrap_servers, "schema.registry.url": registered.registry.url,
             "auto.register.schemas": True}
    table = pyarrow.table({"value": pyarrow.array([{"id": 1}, {"id": 2}])})
    with monedula.Producer(typed) as producer:
        producer.send_batch(table, "typed", value=monedula.Json(framing="confluent")).result()
    print(sum(map(len, monedula.read(typed, "typed"))))
"""
    assert patched(library, "before", code) == "2\n"
