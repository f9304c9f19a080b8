"""Tests of the suites that do not pass on the embedded broker, each with the reason; whatever else fails is a defect.

A name that ends in `*` stands for all tests that begin like it.
"""

LEFT_OUT: dict[str, dict[str, str]] = {
    "kafka-go": {
        "TestReaderConsumerGroup": "its helper that looks offsets up dereferences a nil of its own, which ends the run",
    },
    "sarama": {},
}
"""Tests that are not run, since they end the run of all others."""

_ADDRESS = "expects the broker to advertise the name `localhost`; it advertises the address on which it listens"
_NO_TIME = "asks with a time-out of 0, to which Apache Kafka 4.4 answers REQUEST_TIMED_OUT too (`tests/differential`)"

EXPECTED: dict[str, dict[str, str]] = {
    "kafka-go": {
        "TestConn": _ADDRESS,
        "TestConn/test_retrieve_controller": _ADDRESS,
        "TestDialer": _ADDRESS,
        "TestDialer/looking_up_partitions_returns_the_list_of_available_partitions_for_a_topic": _ADDRESS,
        "TestDialerTLS": _ADDRESS,
        "TestDialerResolver*": _ADDRESS,
        "TestClientFindCoordinator": _ADDRESS,
        "TestClientElectLeaders": _NO_TIME,
    },
    "sarama": {
        "TestFuncIdempotentBufferedSequence": "reads the broker's log by `docker compose logs`",
    },
}
