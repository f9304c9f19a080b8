"""Faults of the registry, and observers of what it is asked."""

import http.client
import threading
from typing import Any
from urllib.parse import urlsplit

import monedula
import pytest
from monedula.testing import Registry

from tests.testing.registry.conftest import Ask


def test_a_status_is_answered_as_often_as_it_says(registry: Registry, ask: Ask) -> None:
    registry.register("a", '"int"')
    fault = registry.fault(path="/schemas/ids/*", status=503, skip=1, count=2)
    assert [ask("GET", "/schemas/ids/1")[0] for _ in range(4)] == [200, 503, 503, 200]
    assert ask("GET", "/subjects")[0] == 200
    assert fault.hits == 2
    with registry.fault(status=404):
        assert ask("GET", "/schemas/ids/1") == (404, {"error_code": 40403, "message": "a fault of the test"})
    with registry.fault(method="POST", status=422, error_code=42205, message="no"):
        assert ask("GET", "/subjects")[0] == 200
        assert ask("POST", "/subjects/a", {})[1] == {"error_code": 42205, "message": "no"}


def test_garbage_is_answered(registry: Registry, ask: Ask) -> None:
    with registry.fault(body=b'{"schema"'), pytest.raises(ValueError, match="Expecting"):
        ask("GET", "/subjects")
    with registry.fault(body="[7]", status=500):
        assert ask("GET", "/subjects") == (500, [7])


def test_what_is_held_goes_on_when_it_is_released(registry: Registry, ask: Ask) -> None:
    fault = registry.fault(path="/subjects", hold=True)
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(ask("GET", "/subjects")))
    thread.start()
    assert fault.wait(1) == 1
    assert answers == []
    fault.release()
    thread.join(20)
    assert answers == [(200, [])]


def test_an_answer_that_is_lost_leaves_what_was_done(registry: Registry, ask: Ask) -> None:
    with registry.fault(method="POST", close=True, on="answer"), pytest.raises(http.client.RemoteDisconnected):
        ask("POST", "/subjects/a/versions", {"schema": '"int"'})
    with registry.fault(method="POST", close=True), pytest.raises(http.client.RemoteDisconnected):
        ask("POST", "/subjects/b/versions", {"schema": '"int"'})
    with registry.fault(reset=True), pytest.raises(ConnectionResetError):
        ask("GET", "/subjects")
    with registry.fault(truncate_bytes=95), pytest.raises(http.client.IncompleteRead):
        ask("GET", "/subjects")
    assert ask("GET", "/subjects") == (200, ["a"])


def test_a_request_that_is_dropped_is_never_answered(registry: Registry) -> None:
    with registry.fault(drop=True) as fault:
        connection = http.client.HTTPConnection(urlsplit(registry.url).netloc, timeout=0.2)
        connection.request("GET", "/subjects")
        fault.wait(1)
        with pytest.raises(TimeoutError):
            connection.getresponse()
        connection.close()


def test_observers_count_beside_faults(registry: Registry, ask: Ask) -> None:
    observer, fault = registry.observe(path="/subj*"), registry.fault(status=500)
    with registry.fault(status=501) as shadowed:
        assert ask("GET", "/subjects")[0] == 500
        assert (observer.wait(1), fault.hits, shadowed.hits) == (1, 1, 0)
    assert [each.effect for each in registry.faults()] == ["observe", "answer"]
    registry.remove_faults()
    assert registry.faults() == []
    assert ask("GET", "/subjects")[0] == 200
    with pytest.raises(monedula.errors.BrokerCommandError, match="there is no fault"):
        fault.release()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "exactly one effect of status or body, delay_ms.*given: none"),
        ({"hold": True, "status": 500}, "given: status or body, hold"),
        ({"status": 99}, "status=99"),
        ({"status": 600}, "status=600"),
        ({"status": 500, "count": 0}, "count=0"),
        ({"status": 500, "probability": 2}, "probability=2"),
        ({"truncate_bytes": 1, "on": "request"}, "about the answer"),
    ],
)
def test_a_fault_that_cannot_be_is_refused(registry: Registry, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(monedula.ArgumentError, match=said):
        registry.fault(**arguments)
