"""Groups that change from one protocol to the other while they read."""

import itertools

from tests.groups.conftest import MemberFactory
from tests.groups.ground import Ground, shared, until


def test_a_live_group_changes_protocol_member_by_member_and_back(ground: Ground, member: MemberFactory) -> None:
    topic, group, seen = ground.topic(6), ground.name("group"), list[int]()
    numbers = itertools.count()

    def write() -> None:
        for partition in range(6):
            ground.append(topic, [next(numbers) for _ in range(50)], partition)

    settings = {"auto_commit_interval_ms": 100}
    members = [member(group, topic, **settings) for _ in range(3)]
    until(shared(6, *members), *members, seen=seen)
    for protocol in ("consumer", "classic"):
        for _ in range(3):
            write()
            members.append(member(group, topic, group_protocol=protocol, **settings))
            until(shared(6, *members), *members, seen=seen, max_rows=20)
            write()
            gone = members.pop(0)
            gone.commit()
            gone.close()
            until(shared(6, *members), *members, seen=seen, max_rows=20)
        assert {each.health()["group"]["protocol"] for each in members} == {protocol}
    total = next(numbers)
    until(lambda: len(seen) >= total, *members, seen=seen)
    assert sorted(seen) == list(range(total)), "nothing is lost, and nothing comes twice"
