"""`monedula cluster`: the cluster as a whole, its health, and its quorum of controllers."""

from collections import Counter
from collections.abc import Iterable

from monedula.admin import Admin, PartitionDescription, QuorumReplica, TopicDescription
from monedula.cli.administration import Connection, administration
from monedula.cli.rendering import time_text
from monedula.cli.running import say
from monedula.cli.tables import AsJson, Row, show
from monedula.errors import KafkaError


@administration("cluster describe")
def describe(connection: Connection, as_json: AsJson = False) -> None:
    """Show the cluster, and how many partitions are not well.

    Partitions without a leader cannot be read or written; those with a replica that is not in sync are
    under-replicated; those that are not led by their first replica wait for an election (`topics elect-leaders`).

    Examples:
        monedula cluster describe
        monedula cluster describe --json
    """
    with connection.admin() as admin:
        cluster = admin.describe_cluster()
        topics = described(admin)
        counts = Counter(problem for topic in topics for part in topic.partitions for problem in _problems(part))
        rows = [
            ("cluster_id", cluster.cluster_id),
            ("controller", _controller(admin, cluster.controller)),
            ("brokers", len(cluster.nodes)),
            ("topics", sum(not topic.internal for topic in topics)),
            ("internal_topics", sum(topic.internal for topic in topics)),
            ("partitions", sum(len(topic.partitions) for topic in topics)),
            *((problem, counts[problem]) for problem in _PROBLEMS),
            ("moving_partitions", len(admin.list_partition_reassignments())),
        ]
    if as_json:
        show([name for name, _ in rows], [[value for _, value in rows]], as_json)
    else:
        show(("what", "value"), rows)


_PROBLEMS = ("without_leader", "under_replicated", "not_led_by_preferred")


def _problems(part: PartitionDescription) -> Iterable[str]:
    if part.leader is None:
        yield "without_leader"
    elif part.replicas and part.leader != part.replicas[0]:
        yield "not_led_by_preferred"
    if len(part.isr) < len(part.replicas):
        yield "under_replicated"


def _controller(admin: Admin, named: int | None) -> int | None:
    """The active controller. Under KRaft, Metadata names any living broker, so the quorum is asked first."""
    try:
        return admin.describe_metadata_quorum().leader
    except KafkaError:  # a cluster before KRaft, or a user without that right
        return named


def described(admin: Admin) -> list[TopicDescription]:
    """Every topic, Kafka's own included, with its partitions."""
    names = list(admin.list_topics(internal=True))
    # A topic that was deleted in between is no error.
    return list(admin.describe_topics(names, errors="return").values()) if names else []


@administration("cluster quorum")
def quorum(connection: Connection, as_json: AsJson = False) -> None:
    """Show the controllers and brokers of the KRaft quorum. It says how far each has read the metadata log.

    Examples:
        monedula cluster quorum
    """
    with connection.admin() as admin:
        found = admin.describe_metadata_quorum()
    leader_end = next((each.log_end_offset for each in found.voters if each.id == found.leader), None)

    def row(replica: QuorumReplica, role: str) -> Row:
        is_known = leader_end is not None and replica.log_end_offset is not None
        return (
            replica.id,
            "leader" if replica.id == found.leader and role == "voter" else role,
            replica.log_end_offset,
            max((leader_end or 0) - (replica.log_end_offset or 0), 0) if is_known else None,
            time_text(replica.last_caught_up_timestamp),
            found.endpoints.get(replica.id, ()) if role == "voter" else (),
        )

    if not as_json:
        say(f"leader {found.leader}, epoch {found.leader_epoch}, high watermark {found.high_watermark}")
    rows = [row(each, "voter") for each in found.voters] + [row(each, "observer") for each in found.observers]
    names = ("node", "role", "end_offset", "lag", "caught_up", "endpoints")
    show(names, rows, as_json, spare=("endpoints", "end_offset"))


HELP = "Show the cluster, its health and its quorum."
COMMANDS = (("describe", describe), ("quorum", quorum))
