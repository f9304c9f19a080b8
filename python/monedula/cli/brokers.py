"""`monedula brokers`: lists brokers, and what each leads and keeps."""

from collections import Counter
from typing import Annotated

from typer import Argument

from monedula.cli.administration import Connection, administration
from monedula.cli.cluster import described
from monedula.cli.failures import Failure
from monedula.cli.tables import AsJson, Row, show
from monedula.types.partitions import TopicPartition


@administration("brokers list")
def list_brokers(connection: Connection, as_json: AsJson = False) -> None:
    """List the living brokers. Address, rack, how many partitions each leads and keeps, and the bytes of these.

    Examples:
        monedula brokers list
        monedula brokers list --json
    """
    with connection.admin() as admin:
        nodes = sorted(admin.describe_cluster().nodes, key=lambda node: node.id)
        partitions = [part for topic in described(admin) for part in topic.partitions]
        # Bytes need a right of their own; without it the rest is worth showing.
        directories = admin.describe_log_dirs([node.id for node in nodes], errors="return")
    leads = Counter(part.leader for part in partitions)
    keeps = Counter(broker for part in partitions for broker in part.replicas)
    behind = Counter(broker for part in partitions for broker in set(part.replicas) - set(part.isr))
    rows: list[Row] = [
        (
            node.id,
            f"{node.host}:{node.port}",
            node.rack,
            leads[node.id],
            keeps[node.id],
            behind[node.id],
            sum(each.size for each in directories[node.id]) if node.id in directories else None,
        )
        for node in nodes
    ]
    names = ("broker", "address", "rack", "leads", "replicas", "not_in_sync", "bytes")
    show(names, rows, as_json, spare=("not_in_sync", "bytes", "rack"))


@administration("brokers describe")
def describe(
    broker: Annotated[int, Argument(help="Id of the broker.")], connection: Connection, as_json: AsJson = False
) -> None:
    """Show the partitions of a broker. Whether it leads them, whether it is in sync, and the bytes of its replica.

    Examples:
        monedula brokers describe 1
    """
    with connection.admin() as admin:
        living = sorted(node.id for node in admin.describe_cluster().nodes)
        topics = described(admin)
        kept = [(topic.name, part) for topic in topics for part in topic.partitions if broker in part.replicas]
        if broker not in living and not kept:
            raise Failure(f"there is no broker {broker}; there are: {', '.join(map(str, living))}")
        directories = admin.describe_log_dirs([broker], errors="return") if broker in living else {}
    sizes = {
        partition: (replica.size, each.path)
        for each in directories.get(broker, ())
        for partition, replica in each.replicas.items()
        if not replica.is_future
    }
    rows: list[Row] = [
        (
            name,
            part.partition,
            part.leader == broker,
            broker in part.isr,
            *sizes.get(TopicPartition(name, part.partition), (None, None)),
        )
        for name, part in sorted(kept, key=lambda at: (at[0], at[1].partition))
    ]
    show(("topic", "partition", "leads", "in_sync", "bytes", "log_dir"), rows, as_json, spare=("log_dir", "bytes"))


HELP = "List brokers, and describe what they keep."
COMMANDS = (("list", list_brokers), ("describe", describe))
