"""The APIs of ACLs, SCRAM credentials, client quotas and delegation tokens, as a super user."""

from typing import Any

from tests.differential.registry import scenario
from tests.differential.script import Script, text

ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
TOPIC, CLUSTER, USER = 2, 4, 7


def creation(name: str, **more: Any) -> dict[str, Any]:
    made = {"resourceType": TOPIC, "resourceName": name, "resourcePatternType": LITERAL, "principal": "User:x"}
    return {**made, "host": "*", "operation": 3, "permissionType": 3, **more}


def chosen(**more: Any) -> dict[str, Any]:
    every = {"resourceTypeFilter": ANY, "patternTypeFilter": ANY, "operation": ANY, "permissionType": ANY}
    return {**every, "principalFilter": "User:x", **more}


@scenario("CreateAcls", (1, 3))
def without_an_authorizer(script: Script, version: int) -> None:
    member = script.member()
    member.call("DescribeAcls", version, chosen())
    member.call("CreateAcls", version, {"creations": [creation("x")]})
    member.call("DeleteAcls", version, {"filters": [chosen()]})


@scenario("CreateDelegationToken", (1, 3))
def of_clients_that_have_not_logged_in(script: Script, version: int) -> None:
    member = script.member()
    member.call("CreateDelegationToken", version, {"renewers": [], "maxLifetimeMs": -1})
    member.call("DescribeDelegationToken", version, {"owners": None})
    member.call("RenewDelegationToken", 2, {"hmac": text("x"), "renewPeriodMs": -1})
    member.call("ExpireDelegationToken", 2, {"hmac": text("x"), "expiryTimePeriodMs": -1})
