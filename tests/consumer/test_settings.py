"""Settings on the wire: the requests of a consumer."""

import struct
import time
from typing import Any, NamedTuple

import monedula
import pytest
from monedula.testing import Broker

from tests.relay import Relay, Request

FETCH, LIST_OFFSETS, OFFSET_COMMIT, JOIN_GROUP, HEARTBEAT = 1, 2, 8, 11, 12
VERSIONS = {"Fetch": 6, "ListOffsets": 3, "JoinGroup": 5}
"""The last of each without tags and sessions: these are read below."""
ENOUGH = 25


class Said(NamedTuple):
    """The values in requests, by the names of the settings."""

    session_timeout_ms: int
    max_poll_interval_ms: int
    fetch_max_wait_ms: int
    fetch_min_bytes: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    auto_offset_reset: str


def said(relay: Relay) -> Said:
    """Wait for the first of each request."""
    for api in (JOIN_GROUP, LIST_OFFSETS, FETCH):
        relay.wait_requests(api)
    (join, *_), (fetch, *_), (start, *_) = map(relay.requests, (JOIN_GROUP, FETCH, LIST_OFFSETS))
    starts = {-2: "earliest", -1: "latest"}
    session, rebalance = struct.unpack_from(">ii", join.body, 2 + struct.unpack_from(">h", join.body)[0])
    _, wait, least, most = struct.unpack_from(">iiii", fetch.body)
    return Said(
        session, rebalance, wait, least, most, of_partition(fetch, ">iqqi")[3], starts[of_partition(start, ">iq")[1]]
    )


def of_partition(request: Request, layout: str) -> tuple[Any, ...]:
    """The first partition of the first topic, which both have behind these heads."""
    at = {FETCH: 17, LIST_OFFSETS: 5}[request.api_key] + 4
    at += 2 + struct.unpack_from(">h", request.body, at)[0] + 4
    return struct.unpack_from(layout, request.body, at)


GIVEN = Said(7000, 70_000, 77, 3, 77_777, 7777, "earliest")


@pytest.mark.req("S172")
def test_settings_have_documented_defaults_and_take_effect() -> None:
    documented = {key.name.replace(".", "_"): key for key in monedula.config_keys()}
    assert all(documented[name].description for name in Said._fields)
    defaults = Said(45_000, 300_000, 500, 1, 8_388_608, 4_194_304, "latest")
    assert {name: documented[name].default for name in Said._fields} == {
        name: str(value) for name, value in defaults._asdict().items()
    }
    with Broker(topics=["orders"], max_versions=VERSIONS) as broker:
        for settings, expected in (({}, defaults), (GIVEN._asdict(), GIVEN)):
            with Relay(broker.bootstrap_servers) as relay:
                where: dict[str, Any] = {"bootstrap_servers": relay.bootstrap_servers, "group_id": f"g{len(settings)}"}
                with monedula.Consumer(None, "orders", **where, **settings) as consumer:
                    consumer.poll(timeout=0)
                    assert said(relay) == expected


@pytest.mark.req("S172")
@pytest.mark.parametrize("by", ["auto_commit_interval_ms", "auto_commit_records"])
def test_the_pace_of_heartbeats_and_commits_is_the_one_that_is_set(by: str) -> None:
    documented = {key.name: key.default for key in monedula.config_keys()}
    paces = ("heartbeat.interval.ms", "auto.commit.interval.ms", "auto.commit.records")
    assert [documented[name] for name in paces] == ["3000", "5000", "0"]
    hour = 3_600_000
    paces_of = {
        "auto_commit_interval_ms": {"auto_commit_interval_ms": 20},
        "auto_commit_records": {"auto_commit_records": 2, "auto_commit_interval_ms": hour},
    }
    deadline = time.monotonic() + 60
    with Broker(topics=["orders"]) as broker, Relay(broker.bootstrap_servers) as relay:
        own: dict[str, Any] = {
            "heartbeat_interval_ms": 20,
            "group_id": "g",
            "auto_offset_reset": "earliest",
            **paces_of[by],
        }
        with monedula.Consumer(None, "orders", bootstrap_servers=relay.bootstrap_servers, **own) as consumer:
            # With the defaults, this many of either would take longer than the test waits.
            for number in range(ENOUGH):
                broker.append("orders", ["a", "b"])
                rows = 0
                while rows < 2:
                    rows += consumer.poll(timeout=30).num_rows
                # This finishes the rows that were handed out before.
                consumer.poll(timeout=0)
                relay.wait_requests(OFFSET_COMMIT, number + 1, deadline - time.monotonic())
            relay.wait_requests(HEARTBEAT, ENOUGH, deadline - time.monotonic())
