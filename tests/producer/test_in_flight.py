"""How many requests are on their way at once, where answers take long: counted in round trips, not in seconds."""

import monedula
import pytest
from monedula.testing import Broker

from tests.producer.conftest import stored
from tests.relay import Relay

PRODUCE = 0
REQUESTS = 40


def round_trips(broker: Broker, topic: str, in_flight: int) -> int:
    """Send this many requests. Each time that the producer has its maximum in flight, all of their answers arrive.

    This simulates a network whose delay exceeds all other times.
    """
    broker.create_topic(topic, 1)
    with Relay(broker.bootstrap_servers, frozenset({PRODUCE})) as relay:
        settings = {"bootstrap.servers": relay.bootstrap_servers, "max.in.flight": in_flight, "linger.ms": 0}
        # A record fills a batch, and a batch a request.
        with monedula.Producer({**settings, "batch.size": 1, "max.request.size": 2000}) as producer:
            futures = [producer.send(topic, f"{number:04}" + "x" * 1100) for number in range(REQUESTS)]
            trips = answered = 0
            while answered < REQUESTS:
                # The first request is sent alone: it shows the producer id to the leader.
                wanted = 1 if answered == 0 else min(in_flight, REQUESTS - answered)
                relay.wait_held(wanted)
                assert relay.outstanding == wanted, "no more than allowed"
                answered += relay.release()
                trips += 1
            assert [future.result(60).offset for future in futures] == list(range(REQUESTS))
        assert len(relay.requests(PRODUCE)) == REQUESTS
    values = [(record.value or b"")[:4] for record in stored(broker.bootstrap_servers, topic)]
    assert values == [b"%04d" % number for number in range(REQUESTS)]
    return trips


@pytest.mark.req("S167")
def test_several_requests_in_flight_carry_a_multiple_of_one(broker: Broker) -> None:
    one, five = round_trips(broker, "one", 1), round_trips(broker, "five", 5)
    assert one == REQUESTS
    assert five == 1 + -(-(REQUESTS - 1) // 5)
    assert one >= 4 * five
