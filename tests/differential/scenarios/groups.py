"""ListGroups, DescribeGroups and DeleteGroups, in every state."""

from typing import Any

from tests.differential.registry import scenario
from tests.differential.scenarios.classic import Classic, stable
from tests.differential.scenarios.committed import committing
from tests.differential.script import Answer, Script

LIST = range(6)
DESCRIBE = range(7)
DELETE = range(4)


def in_every_state(script: Script) -> dict[str, str]:
    """Groups by their state."""
    topic = script.topic()
    empty, preparing, completing = (script.name(state) for state in ("empty", "preparing", "completing"))
    script.admin.ask("OffsetCommit", 9, committing(empty, topic, "", 9, (0, 5)))
    (a,) = stable(script, "a", group=script.name("stable"))
    waiting_for = stable(script, "b", group=preparing)[0]
    Classic(script, preparing, "c").send_join()
    waiting_for.until_rebalance()
    Classic(script, completing, "d").join()
    left = stable(script, "e", group=script.name("left"))[0]
    left.leave()
    return {
        "empty": empty,
        "stable": a.group,
        "preparing": preparing,
        "completing": completing,
        "left": left.group,
        "missing": script.name("missing"),
    }


@scenario("ListGroups", LIST)
def listed(script: Script, version: int) -> None:
    groups = in_every_state(script)
    member = script.member()

    def mine(answer: Answer) -> Any:
        if "groups" not in answer:
            return answer
        return {**answer, "groups": [group for group in answer["groups"] if group["groupId"] in groups.values()]}

    def call(label: str, **more: Any) -> None:
        member.call("ListGroups", version, more, label=label, keep=mine)

    call("all")
    if version >= 4:
        for states in (
            ["Stable"],
            ["Empty", "PreparingRebalance"],
            ["stable"],
            ["Dead"],
            ["Nonsense"],
            ["CompletingRebalance"],
        ):
            call(f"in {states}", statesFilter=states)
    if version >= 5:
        for types in (["classic"], ["Classic"], ["consumer"], ["share"], ["nonsense"], ["classic", "consumer"]):
            call(f"of {types}", typesFilter=types)
        call("both", typesFilter=["classic"], statesFilter=["Stable"])


@scenario("DescribeGroups", DESCRIBE)
def described_groups(script: Script, version: int) -> None:
    groups = in_every_state(script)
    member = script.member()
    for label, group in groups.items():
        member.call("DescribeGroups", version, {"groups": [group]}, label=label)
    body = {"groups": list(groups.values()), "includeAuthorizedOperations": True}
    member.call("DescribeGroups", version, body, label="all of them")
    member.call("DescribeGroups", version, {"groups": [""]}, label="empty name")
    member.call("DescribeGroups", version, {"groups": []}, label="none")
    member.call("DescribeGroups", version, {"groups": [groups["stable"]] * 2}, label="twice")


@scenario("DeleteGroups", DELETE)
def deleted_groups(script: Script, version: int) -> None:
    groups = in_every_state(script)
    member = script.member()
    for label, group in groups.items():
        member.call("DeleteGroups", version, {"groupsNames": [group]}, label=label)
    member.call("DeleteGroups", version, {"groupsNames": list(groups.values())}, label="all of them, again")
    member.call("DeleteGroups", version, {"groupsNames": [""]}, label="empty name")
    member.call("DeleteGroups", version, {"groupsNames": []}, label="none")
    member.call("OffsetFetch", 8, {"groups": [{"groupId": groups["empty"], "topics": None}]}, label="offsets are gone")
