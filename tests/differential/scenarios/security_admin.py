"""The APIs of ACLs, SCRAM credentials, client quotas and delegation tokens, as a super user."""

from typing import Any

from tests.differential.registry import scenario
from tests.differential.scenarios.authorization import NO_FILTER
from tests.differential.script import Answer, Script, text
from tests.kafka.secured import ANNA

ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
TOPIC, CLUSTER = 2, 4
NOT_FOUND = 62


def creation(name: str, **more: Any) -> dict[str, Any]:
    made = {"resourceType": TOPIC, "resourceName": name, "resourcePatternType": LITERAL, "principal": "User:x"}
    return {**made, "host": "*", "operation": 3, "permissionType": 3, **more}


def chosen(**more: Any) -> dict[str, Any]:
    return {**NO_FILTER, "principalFilter": "User:x", **more}


def settled(script: Script, count: int) -> None:
    """Wait until the node's authorizer knows so many: in a real Kafka it lags behind the controller."""

    def known() -> int:
        answer = script.admin.ask("DescribeAcls", 3, chosen())
        return sum(len(found["acls"]) for found in answer["resources"])

    script.until(lambda: known() == count or None, f"{count} ACLs")


@scenario("CreateAcls", range(1, 4), secured=True)
def come_and_go(script: Script, version: int) -> None:
    member, name = script.member(), script.name("topic")
    member.call("DescribeAcls", version, chosen(), label="none")
    for label, acl in (
        ("one", creation(name)),
        ("the same", creation(name)),
        ("a prefix", creation(name[:-2], resourcePatternType=PREFIXED)),
        ("a wildcard", creation("*", operation=2, permissionType=2)),
        ("no name", creation("")),
        ("the cluster by a wrong name", creation("cluster", resourceType=CLUSTER)),
        ("any type", creation(name, resourceType=ANY)),
        ("any pattern", creation(name, resourcePatternType=ANY)),
        ("match", creation(name, resourcePatternType=MATCH)),
        ("any operation", creation(name, operation=ANY)),
        ("any permission", creation(name, permissionType=ANY)),
        ("no type of a principal", creation(name, principal="x")),
    ):
        member.call("CreateAcls", version, {"creations": [acl]}, label=label)
    beside = [creation(name, operation=ANY), creation(name, operation=4), creation("")]
    member.call("CreateAcls", version, {"creations": beside}, label="any operation, beside a good one")
    beside = [creation(name, principal="x"), creation(name, operation=4), creation("")]
    member.call("CreateAcls", version, {"creations": beside}, label="two wrong ones, beside a good one")
    settled(script, 4)
    for label, asked in (
        ("all", chosen()),
        ("by name", chosen(resourceNameFilter=name)),
        ("those that match", chosen(resourceNameFilter=name, patternTypeFilter=MATCH)),
        ("prefixes", chosen(patternTypeFilter=PREFIXED)),
        ("of another host", chosen(hostFilter="10.0.0.1")),
        ("that deny", chosen(permissionType=2)),
    ):
        member.call("DescribeAcls", version, asked, label=label)
    filters = [chosen(resourceNameFilter=name), chosen(resourceNameFilter="nothing"), chosen()]
    member.call("DeleteAcls", version, {"filters": filters}, label="deleted")
    settled(script, 0)
    member.call("DescribeAcls", version, chosen(), label="none again")


@scenario("CreateAcls", (3,), secured=True)
def with_codes_that_nobody_knows(script: Script, version: int) -> None:
    for label, api, body in (
        ("a type", "CreateAcls", {"creations": [creation("x", resourceType=77)]}),
        ("no operation", "CreateAcls", {"creations": [creation("x", operation=0)]}),
        ("a pattern", "DescribeAcls", chosen(patternTypeFilter=77)),
        ("no permission", "DescribeAcls", chosen(permissionType=0)),
        ("an operation", "DeleteAcls", {"filters": [chosen(operation=77)]}),
        ("a pattern, beside a good filter", "DeleteAcls", {"filters": [chosen(patternTypeFilter=77), chosen()]}),
        ("no pattern", "DeleteAcls", {"filters": [chosen(patternTypeFilter=0)]}),
    ):
        script.member().send(api, version, body, label).receive()


@scenario("CreateAcls", (1, 3))
def without_an_authorizer(script: Script, version: int) -> None:
    member = script.member()
    member.call("DescribeAcls", version, chosen())
    member.call("CreateAcls", version, {"creations": [creation("x")]})
    member.call("DeleteAcls", version, {"filters": [chosen()]})


@scenario("AlterUserScramCredentials")
def of_users(script: Script) -> None:
    member, name = script.member(), script.name("user")
    salt, salted = text("salt"), text("0" * 32)

    def upsert(user: str, mechanism: int = 1, iterations: int = 4096) -> dict[str, Any]:
        made = {"name": user, "mechanism": mechanism, "iterations": iterations, "salt": salt, "saltedPassword": salted}
        return {"deletions": [], "upsertions": [made]}

    def delete(user: str, mechanism: int = 1) -> dict[str, Any]:
        return {"deletions": [{"name": user, "mechanism": mechanism}], "upsertions": []}

    def described(label: str, *users: str) -> None:
        asked = {"users": [{"name": user} for user in users] if users else None}

        def known(answer: Answer) -> Any:
            return {**answer, "results": [r for r in answer["results"] if r["user"].startswith(script.scenario)]}

        member.call("DescribeUserScramCredentials", 0, asked, label=label, keep=known)

    # Kafka's brokers learn of a change a moment after it.
    def wait_known(iterations: list[int]) -> None:
        def known() -> bool | None:
            (told,) = member.ask("DescribeUserScramCredentials", 0, {"users": [{"name": name}]})["results"]
            return sorted(one["iterations"] for one in told["credentialInfos"]) == iterations or None

        script.until(known, f"credentials with iterations of {iterations}")

    described("unknown", name)
    for label, body in (
        ("created", upsert(name)),
        ("the other mechanism", upsert(name, 2, 8192)),
        ("replaced", upsert(name, 1, 16384)),
        ("too few iterations", upsert(name, 1, 4095)),
        ("too many iterations", upsert(name, 1, 16385)),
        ("negative iterations", upsert(name, 1, -1)),
        ("an unknown mechanism", upsert(name, 3)),
        ("no mechanism", upsert(name, 0)),
        ("no name", upsert("")),
        ("delete another", delete(script.name("other"))),
        ("twice", {"deletions": delete(name)["deletions"], "upsertions": upsert(name)["upsertions"]}),
        ("three times", {"deletions": [], "upsertions": upsert(name)["upsertions"] * 3}),
        ("nothing", {"deletions": [], "upsertions": []}),
    ):
        member.call("AlterUserScramCredentials", 0, body, label=label)
    wait_known([8192, 16384])
    described("two", name)
    described("all")
    described("twice", name, name)
    member.call("AlterUserScramCredentials", 0, delete(name), label="deleted")
    wait_known([8192])
    described("one", name)
    member.call("AlterUserScramCredentials", 0, delete(name, 2), label="deleted")
    wait_known([])
    described("none", name)


@scenario("AlterClientQuotas", (0, 1))
def of_entities(script: Script, version: int) -> None:
    member, user, client = script.member(), script.name("user"), script.name("client")

    def entity(**parts: str | None) -> list[dict[str, Any]]:
        return [{"entityType": kind.replace("_", "-"), "entityName": name} for kind, name in parts.items()]

    def alter(label: str, of: list[dict[str, Any]], *ops: tuple[str, float, bool], validate: bool = False) -> None:
        changes = [{"key": key, "value": value, "remove": remove} for key, value, remove in ops]
        body = {"entries": [{"entity": of, "ops": changes}], "validateOnly": validate}
        member.call("AlterClientQuotas", version, body, label=label)

    rate = ("producer_byte_rate", 1024.0, False)
    alter("validated", entity(user=user), rate, validate=True)
    alter("set", entity(user=user), rate, ("request_percentage", 12.5, False))
    alter("both", entity(user=user, client_id=client), rate)
    alter("the default client of a user", entity(user=user, client_id=None), rate)
    alter("an address", entity(ip="127.0.0.9"), ("connection_creation_rate", 5.0, False))
    for label, of, op in (
        ("no entity", [], rate),
        ("an unknown type", [{"entityType": "group", "entityName": "g"}], rate),
        ("an empty name", entity(user=""), rate),
        ("an address and a user", entity(ip="127.0.0.9", user=user), rate),
        ("no address", entity(ip="256.1.1.1"), ("connection_creation_rate", 5.0, False)),
        ("an unknown quota", entity(user=user), ("bytes", 1.0, False)),
        ("a quota of another type", entity(user=user), ("connection_creation_rate", 5.0, False)),
        ("zero", entity(user=user), ("producer_byte_rate", 0.0, False)),
        ("negative", entity(user=user), ("producer_byte_rate", -1.0, False)),
        ("a fraction", entity(user=user), ("producer_byte_rate", 1.5, False)),
        ("too large", entity(ip="127.0.0.9"), ("connection_creation_rate", 3e9, False)),
    ):
        alter(label, of, op)
    alter("a key twice", entity(user=user), rate, rate)

    def describe(label: str, *components: tuple[str, int, str | None], strict: bool = False) -> None:
        wanted = [{"entityType": kind, "matchType": how, "match": name} for kind, how, name in components]
        member.call("DescribeClientQuotas", version, {"components": wanted, "strict": strict}, label=label)

    describe("of the user", ("user", 0, user))
    describe("strictly of the user", ("user", 0, user), strict=True)
    describe("of user and client", ("user", 0, user), ("client-id", 2, None))
    describe("of user and default client", ("user", 0, user), ("client-id", 1, None))
    describe("of addresses", ("ip", 2, None))
    describe("of nobody", ("user", 0, "nobody"))
    for label, component in (
        ("exactly nothing", ("user", 0, None)),
        ("a default with a name", ("user", 1, "x")),
        ("any with a name", ("user", 2, "x")),
        ("an unknown match", ("user", 7, None)),
        ("an unknown type", ("group", 2, None)),
        ("no type", ("", 2, None)),
    ):
        describe(label, component)
    describe("a type twice", ("user", 2, None), ("user", 1, None))
    describe("an address and a user", ("user", 2, None), ("ip", 2, None))
    alter("removed", entity(user=user), ("producer_byte_rate", 0.0, True), ("request_percentage", 0.0, True))
    alter("removed", entity(user=user, client_id=client), ("producer_byte_rate", 0.0, True))
    alter("removed", entity(user=user, client_id=None), ("producer_byte_rate", 0.0, True))
    alter("removed", entity(ip="127.0.0.9"), ("connection_creation_rate", 0.0, True))
    alter("removed again", entity(user=user), ("producer_byte_rate", 0.0, True))
    describe("none", ("user", 0, user))


@scenario("AlterClientQuotas")
def in_its_order(script: Script) -> None:
    member, prefix = script.member(), script.name("")
    rate = [{"key": "producer_byte_rate", "value": 1024.0, "remove": False}]

    def entity(*parts: tuple[str, str | None]) -> list[dict[str, Any]]:
        return [{"entityType": kind, "entityName": name} for kind, name in parts]

    def order(answer: Answer) -> Any:
        """Lists of entries are sorted before they are compared, texts are not."""
        return [
            " ".join(f"{part['entityType']}={part['entityName']}" for part in entry["entity"])
            for entry in answer["entries"]
        ]

    for count in (3, 14, 40):
        entities = [entity(("user", f"{prefix}{n}")) for n in range(count)]
        entities += [entity(("client-id", f"{prefix}c{n}"), ("user", f"{prefix}{n}")) for n in range(3)]
        entities += [entity(("user", f"{prefix}u"), ("client-id", None)), entity(("user", None))]
        body = {"entries": [{"entity": each, "ops": rate} for each in entities], "validateOnly": True}
        member.call("AlterClientQuotas", 1, body, label=str(count), keep=order)
    twice = [{"entity": entity(("user", f"{prefix}t")), "ops": rate}] * 2
    member.call("AlterClientQuotas", 1, {"entries": twice, "validateOnly": True}, label="twice", keep=order)


@scenario("CreateDelegationToken", (1, 2, 3), secured=True)
def of_users_themselves(script: Script, version: int) -> None:
    member = script.member(user=ANNA)

    def known(answer: Answer) -> Any:
        return {k: v for k, v in answer.items() if k not in ("hmac", "tokenId")}

    def create(label: str, **more: Any) -> Answer:
        body = {"renewers": [], "maxLifetimeMs": -1, **more}
        return member.call("CreateDelegationToken", version, body, label=label, keep=known)

    token = create("one", renewers=[{"principalType": "User", "principalName": "boris"}])
    create("a renewer of another type", renewers=[{"principalType": "Group", "principalName": "x"}])
    if version >= 3:
        create("for another", ownerPrincipalType="User", ownerPrincipalName="admin")
    hmac = token["hmac"]
    of_others = min(version, 2)

    def described(label: str, owners: Any, user: Any = None) -> None:
        def listed(answer: Answer) -> Any:
            return {**answer, "tokens": [known(found) for found in answer["tokens"] if found["hmac"] == hmac]}

        asker = member if user is None else user
        asker.call("DescribeDelegationToken", version, {"owners": owners}, label=label, keep=listed)

    # Kafka's brokers learn of a token a moment after its creation.
    def known_token() -> bool | None:
        told = member.ask("DescribeDelegationToken", version, {"owners": None})["tokens"]
        return any(one["hmac"] == hmac for one in told) or None

    script.until(known_token, "the token")
    described("mine", None)
    described("of none", [])
    described("of anna", [{"principalType": "User", "principalName": "anna"}])
    described("of admin", [{"principalType": "User", "principalName": "admin"}])

    def change(label: str, api: str, field: str, period: int, token_hmac: str = hmac) -> None:
        body = {"hmac": token_hmac, field: period}
        # So does its controller.
        retry_on = (NOT_FOUND,) if token_hmac == hmac and label == "renewed" else ()
        member.call(api, of_others, body, label=label, retry_on=retry_on, keep=lambda answer: answer["errorCode"])

    change("renewed", "RenewDelegationToken", "renewPeriodMs", 60_000)
    change("another", "RenewDelegationToken", "renewPeriodMs", 60_000, text("x" * 64))
    change("expires later", "ExpireDelegationToken", "expiryTimePeriodMs", 60_000)
    change("another", "ExpireDelegationToken", "expiryTimePeriodMs", -1, text("x" * 64))
    change("gone", "ExpireDelegationToken", "expiryTimePeriodMs", -1)


@scenario("CreateDelegationToken", (1, 3))
def of_clients_that_have_not_logged_in(script: Script, version: int) -> None:
    member = script.member()
    member.call("CreateDelegationToken", version, {"renewers": [], "maxLifetimeMs": -1})
    member.call("DescribeDelegationToken", version, {"owners": None})
    member.call("RenewDelegationToken", 2, {"hmac": text("x"), "renewPeriodMs": -1})
    member.call("ExpireDelegationToken", 2, {"hmac": text("x"), "expiryTimePeriodMs": -1})
