"""SaslHandshake and SaslAuthenticate: the allowed order of requests, and the answers."""

from typing import Any

from tests.differential.registry import scenario
from tests.differential.script import Answer, Member, Script, plain, text
from tests.kafka.secured import ANNA, BORIS

VERSIONS = {"clientSoftwareName": "differential", "clientSoftwareVersion": "1"}


def without_kerberos(answer: Answer) -> Any:
    """The embedded broker has no GSSAPI."""
    return {**answer, "mechanisms": sorted(m for m in answer.get("mechanisms", []) if m != "GSSAPI")}


def handshake(member: Member, mechanism: str, label: str = "", version: int = 1) -> Answer:
    body = {"mechanism": mechanism}
    return member.call("SaslHandshake", version, body, label=label or mechanism, keep=without_kerberos)


def authenticate(member: Member, message: str, label: str = "", version: int = 2) -> Answer:
    return member.call("SaslAuthenticate", version, {"authBytes": message}, label=label)


def ends(member: Member, label: str) -> None:
    """Have compared whether anything is answered any more."""
    answer = member.send("Metadata", 12, {"topics": []}, label).answer()
    member.script.record("Metadata", {"closed": "closed" in answer}, 12, label)


@scenario("SaslHandshake", (0, 1), secured=True)
def chooses_a_mechanism(script: Script, version: int) -> None:
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"):
        handshake(script.member(user=None), mechanism, version=version)
    member = script.member(user=None)
    handshake(member, "CRAM-MD5", version=version)
    ends(member, "after an unknown mechanism")
    member = script.member(user=None)
    handshake(member, "", "an empty mechanism", version=version)
    ends(member, "after an empty mechanism")


@scenario("SaslHandshake", (0, 1))
def on_a_listener_without_sasl(script: Script, version: int) -> None:
    member = script.member()
    handshake(member, "PLAIN", version=version)
    authenticate(member, plain("a", "b"), "a login")
    ends(member, "the connection goes on")


@scenario("SaslAuthenticate", range(3), secured=True)
def logs_in_with_plain(script: Script, version: int) -> None:
    member = script.member(user=None)
    member.call("ApiVersions", 3, VERSIONS, keep=lambda answer: answer["errorCode"])
    handshake(member, "PLAIN")
    authenticate(member, plain(ANNA.name, ANNA.password), "right", version)
    member.call("Metadata", 12, {"topics": [{"name": script.name("missing")}]}, keep=lambda answer: len(answer))
    authenticate(member, plain(ANNA.name, ANNA.password), "again", version)
    handshake(member, "PLAIN", "a handshake after the login")
    ends(member, "the connection goes on")


@scenario("SaslAuthenticate", range(3), secured=True)
def refuses_with_plain(script: Script, version: int) -> None:
    for label, message in (
        ("wrong password", plain(ANNA.name, "wrong")),
        ("unknown user", plain("nobody", "wrong")),
        ("another authorization id", text(f"{BORIS.name}\0{ANNA.name}\0{ANNA.password}")),
        ("its own authorization id", text(f"{ANNA.name}\0{ANNA.name}\0{ANNA.password}")),
        ("no password", plain(ANNA.name, "")),
        ("no user", plain("", ANNA.password)),
        ("two fields", text(f"{ANNA.name}\0{ANNA.password}")),
        ("four fields", text(f"\0{ANNA.name}\0{ANNA.password}\0")),
        ("nothing", ""),
    ):
        member = script.member(user=None)
        handshake(member, "PLAIN", "first")
        authenticate(member, message, label, version)
        ends(member, f"after {label}")


@scenario("SaslAuthenticate", range(3), secured=True)
def refuses_with_scram_and_bearer(script: Script, version: int) -> None:
    for mechanism, label, message in (
        ("SCRAM-SHA-256", "unknown user", text("n,,n=nobody,r=abc")),
        ("SCRAM-SHA-256", "no message of SCRAM", text("hello")),
        ("SCRAM-SHA-512", "channel binding", text(f"p=tls-unique,,n={ANNA.name},r=abc")),
        ("OAUTHBEARER", "no message of OAuth", text("hello")),
    ):
        member = script.member(user=None)
        handshake(member, mechanism, "first")
        authenticate(member, message, f"{mechanism}: {label}", version)
        ends(member, f"after {label}")


@scenario("SaslAuthenticate", (2,), secured=True)
def takes_messages_by_the_rfcs(script: Script, version: int) -> None:
    for mechanism, label, message in (
        ("SCRAM-SHA-256", "a mandatory extension", text(f"n,,m=1,n={ANNA.name},r=abc")),
        ("OAUTHBEARER", "another scheme", text("n,,\x01auth=Basic abc\x01\x01")),
    ):
        member = script.member(user=None)
        handshake(member, mechanism, "first")
        answer = member.send("SaslAuthenticate", version, {"authBytes": message}).answer()
        # Of an answer that is no refusal, the rest is a nonce.
        told = {"errorCode": answer.get("errorCode"), "closed": "closed" in answer}
        script.record("SaslAuthenticate", told, version, label)


@scenario("SaslHandshake", secured=True)
def what_comes_out_of_turn(script: Script) -> None:
    member = script.member(user=None)
    ends(member, "Metadata first")
    member = script.member(user=None)
    member.send("SaslAuthenticate", 2, {"authBytes": plain(ANNA.name, ANNA.password)}, "a login first").receive()
    member = script.member(user=None)
    member.call("ApiVersions", 3, VERSIONS, keep=lambda answer: answer["errorCode"])
    member.send("ApiVersions", 3, VERSIONS, "ApiVersions twice").receive()
    member = script.member(user=None)
    member.call("ApiVersions", 3, {**VERSIONS, "clientSoftwareName": "a b"}, "an invalid name")
    handshake(member, "PLAIN", "after the invalid name")
    for label, api, version, body in (
        ("Metadata", "Metadata", 12, {"topics": [{"name": "x"}]}),
        ("ApiVersions", "ApiVersions", 3, VERSIONS),
        ("a second handshake", "SaslHandshake", 1, {"mechanism": "PLAIN"}),
    ):
        member = script.member(user=None)
        handshake(member, "PLAIN", "first")
        member.send(api, version, body, f"{label} during the exchange").receive()
        ends(member, f"after {label}")
