"""ApiVersions, and what a broker does with requests that it does not know."""

import struct

from tests.differential.registry import scenario
from tests.differential.script import Script

# APIs that the embedded broker does not implement; the rest of Kafka's list is compared.
API_VERSIONS = range(6)


@scenario("ApiVersions", API_VERSIONS)
def ranges(script: Script, version: int) -> None:
    body = {"clientSoftwareName": "differential", "clientSoftwareVersion": "1.0"}
    script.member().call("ApiVersions", version, body)


@scenario("ApiVersions", (3, 4, 5))
def software_name_is_checked(script: Script, version: int) -> None:
    for name, software_version in (("", "1"), ("a", ""), ("a b", "1"), ("a", "1!"), ("-a", "1"), ("a.b-c", "1.0-x")):
        body = {"clientSoftwareName": name, "clientSoftwareVersion": software_version}
        member = script.member()
        answer = member.send("ApiVersions", version, body, label=f"{name!r} {software_version!r}").answer()
        script.record(
            "ApiVersions", answer if "closed" in answer else {"errorCode": answer["errorCode"]}, version, name
        )


@scenario("ApiVersions", (4, 5))
def who_is_meant_is_checked(script: Script, version: int) -> None:
    """Cluster and node (KIP-1242), sent from version 5 on."""
    names = {"clientSoftwareName": "differential", "clientSoftwareVersion": "1.0"}
    cluster_id = script.member().ask("DescribeCluster", 0)["clusterId"]
    for label, meant in (
        ("right", {"clusterId": cluster_id, "nodeId": 1}),
        ("another node", {"clusterId": cluster_id, "nodeId": 2}),
        ("no such node", {"clusterId": cluster_id, "nodeId": 4711}),
        ("another cluster", {"clusterId": "other", "nodeId": 1}),
        ("an empty cluster", {"clusterId": "", "nodeId": 1}),
        ("no node", {"clusterId": cluster_id, "nodeId": -1}),
        ("a negative node", {"clusterId": cluster_id, "nodeId": -2}),
        ("no cluster", {"clusterId": None, "nodeId": 1}),
        ("neither", {"clusterId": None, "nodeId": -1}),
    ):
        member = script.member()
        answer = member.send("ApiVersions", version, {**names, **meant}, label=label).answer()
        apis = len(answer["apiKeys"]) > 0
        script.record("ApiVersions", {"errorCode": answer["errorCode"], "tellsApis": apis}, version, label)
        again = member.ask("ApiVersions", 3, names)
        script.record("ApiVersions", {"errorCode": again["errorCode"]}, 3, f"{label}, goes on")


@scenario("ApiVersions", (6, 99, 32767))
def from_the_future(script: Script, version: int) -> None:
    member = script.member()

    def frame(correlation: int) -> bytes:
        return struct.pack(">hhih", 18, version, correlation, 1) + b"c" + b"\0\0\0\0"

    answer = member.send_frame("ApiVersions", 0, frame, label="answered as version 0").answer()
    script.record("ApiVersions", answer, 0)
    body = {"clientSoftwareName": "differential", "clientSoftwareVersion": "1.0"}
    script.record("ApiVersions", {"errorCode": member.ask("ApiVersions", 3, body).get("errorCode")}, 3, "goes on")


@scenario("bytes")
def unknown_apis_and_versions(script: Script) -> None:
    for key, version in ((3, 99), (0, 2), (1, 3), (11, 99), (-1, 0), (32767, 0), (4, 0), (5, 0)):
        member = script.member()

        def frame(correlation: int, key: int = key, version: int = version) -> bytes:
            return struct.pack(">hhih", key, version, correlation, -1) + bytes(8)

        member.send_frame(None, 0, frame, label=f"API {key} version {version}").receive()


@scenario("bytes")
def what_is_no_request(script: Script) -> None:
    for label, data in (
        ("a body that ends early", struct.pack(">ihhih", 10, 3, 1, 7, -1)),
        ("an array beyond its frame", struct.pack(">ihhihi", 14, 3, 1, 7, -1, 1 << 30)),
        ("a negative length", struct.pack(">i", -1)),
        ("a length beyond the limit", struct.pack(">i", 0x7FFFFFFF)),
        ("no header", struct.pack(">i", 0)),
        ("half a header", struct.pack(">ihh", 4, 3, 1)),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ):
        member = script.member()
        waiting = member.send_frame(None, 0, lambda _: struct.pack(">hhih", 18, 0, 1, -1))
        waiting.answer()
        member.connection.bytes(data)
        label_of = member.send_frame(None, 0, lambda correlation: struct.pack(">hhih", 18, 0, correlation, -1), label)
        label_of.receive()


@scenario("bytes")
def requests_in_a_row(script: Script) -> None:
    """Answers come in the order of the requests."""
    member = script.member()
    waiting = [member.send("Metadata", version, {"topics": []}, label="one of many") for version in range(1, 14)]
    for one in waiting:
        answer = one.answer()
        script.record("Metadata", {"topics": answer.get("topics")}, one.step.version)


@scenario("FindCoordinator", range(7))
def of_groups_and_transactions(script: Script, version: int) -> None:
    member = script.member()
    for kind in (0, 1) if version else (0,):
        for key in ("a", "other"):
            name = script.name(key)
            member.call(
                "FindCoordinator", version, {"key": name, "keyType": kind, "coordinatorKeys": [name]}, label=key
            )
    member.call("FindCoordinator", version, {"key": "", "keyType": 0, "coordinatorKeys": ["", "a", "a"]}, label="empty")
    if version:
        member.call(
            "FindCoordinator", version, {"key": "a", "keyType": 7, "coordinatorKeys": ["a"]}, label="no such type"
        )
        member.call("FindCoordinator", version, {"key": "a", "keyType": -1, "coordinatorKeys": ["a"]}, label="negative")
    if version >= 4:
        member.call("FindCoordinator", version, {"keyType": 0, "coordinatorKeys": []}, label="none")


@scenario("DescribeCluster", range(3))
def cluster(script: Script, version: int) -> None:
    member = script.member()
    member.call("DescribeCluster", version)
    member.call("DescribeCluster", version, {"includeClusterAuthorizedOperations": True}, label="operations")
    member.call("DescribeCluster", version, {"endpointType": 1, "includeFencedBrokers": True}, label="fenced too")
    if version:
        member.call("DescribeCluster", version, {"endpointType": 2}, label="controllers")
        member.call("DescribeCluster", version, {"endpointType": 3}, label="no such type")
