"""What a Produce request says besides its records."""

import struct

import monedula
import pytest
from monedula.testing import Broker

from tests.relay import Relay

PRODUCE = 0


@pytest.mark.req("S170")
@pytest.mark.parametrize(("acks", "number"), [("all", -1), ("-1", -1), ("1", 1), ("0", 0)])
@pytest.mark.parametrize("request_timeout_ms", [1234, 30_000])
def test_acks_and_request_timeout_go_out_in_produce(acks: str, number: int, request_timeout_ms: int) -> None:
    with Broker(topics=["orders"]) as broker, Relay(broker.bootstrap_servers) as relay:
        settings = {"acks": acks, "enable.idempotence": number == -1, "request.timeout.ms": request_timeout_ms}
        with monedula.Producer({"bootstrap.servers": relay.bootstrap_servers, **settings}) as producer:
            producer.send("orders", "x").result(20)
            relay.wait_requests(PRODUCE)
        (request,) = relay.requests(PRODUCE)
        assert request.version >= 9, "flexible: tags, then the transactional id, which is null, as one zero each"
        assert request.body[:2] == b"\0\0"
        assert struct.unpack(">hi", request.body[2:8]) == (number, request_timeout_ms)
