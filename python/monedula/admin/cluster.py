"""The cluster: its brokers, and which of them lead and replicate partitions."""

from collections.abc import Iterable, Mapping, Sequence

from monedula._arguments import raw_partition, raw_partitions, truth
from monedula.admin import values
from monedula.admin.arguments import Errors, P, as_mapping, raw_brokers
from monedula.admin.calls import AdminBase, Call, Method
from monedula.admin.results import Results, of_items
from monedula.admin.types import ClusterDescription, QuorumDescription
from monedula.admin.views import Reassignments
from monedula.types.partitions import TopicPartition


class ClusterMethods(AdminBase):
    """Methods about the cluster."""

    @Method
    def describe_cluster(self, *, timeout: float | None = None) -> Call[ClusterDescription]:
        """The brokers, the controller and the cluster id.

        Args:
            timeout: seconds.
        """
        return Call(self._core.describe_cluster(timeout), values.cluster)

    @Method
    def describe_metadata_quorum(self, *, timeout: float | None = None) -> Call[QuorumDescription]:
        """The KRaft quorum: its leader, and how far each controller and broker follows (KIP-595, from Kafka 3.3 on).

        Args:
            timeout: seconds.
        """
        return Call(self._core.describe_metadata_quorum(timeout), values.quorum)

    @Method
    def elect_leaders(
        self,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        unclean: bool = False,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Call[Results[TopicPartition, bool]]:
        """Elect the preferred replicas as leaders.

        Args:
            partitions: these partitions; all partitions if left out.
            unclean: elect any living replica for partitions without an in-sync replica. **Loses records.**
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Returns:
            For each partition whether a leader was elected; `False` if none was needed. Without `partitions` it
            contains only the partitions that changed.
        """
        raw = None if partitions is None else raw_partitions(partitions)
        operation = self._core.elect_leaders(timeout, raw, truth("unclean", unclean))
        return of_items(operation, Results[TopicPartition, bool], values.partition, values.same, errors)

    @Method
    def alter_partition_reassignments(
        self,
        partitions: Mapping[P, Sequence[int] | None],
        *,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Call[Results[TopicPartition, None]]:
        """Move partitions to other brokers (KIP-455, from Kafka 2.4 on). Returns once the moves have begun.

        Args:
            partitions: the new replicas of each partition as broker ids, the preferred leader first; `None` to cancel
                the current move.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.
        """
        raw = []
        for partition, replicas in as_mapping(partitions, "{('orders', 0): [1, 2]}").items():
            brokers = None if replicas is None else raw_brokers(replicas)
            raw.append((raw_partition(partition), brokers))
        operation = self._core.alter_partition_reassignments(timeout, raw)
        return of_items(operation, Results[TopicPartition, None], values.partition, values.nothing, errors)

    @Method
    def list_partition_reassignments(
        self, partitions: Iterable[tuple[str, int]] | None = None, *, timeout: float | None = None
    ) -> Call[Reassignments]:
        """The current moves of these partitions, or of all partitions; also as a table.

        Args:
            partitions: only these partitions; all if left out.
            timeout: seconds.
        """
        raw = None if partitions is None else raw_partitions(partitions)
        return Call(
            self._core.list_partition_reassignments(timeout, raw),
            lambda answer: Reassignments((values.partition(at), values.reassignment(moved)) for at, moved in answer),
        )
