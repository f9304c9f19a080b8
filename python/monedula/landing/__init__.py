"""A topic lands in a table: Kafka into Delta Lake and Apache Iceberg, each record exactly once, without a JVM.

    import monedula

    monedula.land(settings, "orders", monedula.Delta("./lake/orders"), value=monedula.Json("id bigint, amount double"))

The consumer group shares the partitions among workers, no more. The offsets are in the table, in the commit that adds
the rows, and the table refuses a commit whose offsets are not those that it has.
"""

from monedula.landing.check import PartitionCheck, TableCheck, check
from monedula.landing.commits import LandingCommit, LandingPlan, LandingResult
from monedula.landing.delta import Delta
from monedula.landing.health_server import HealthServer
from monedula.landing.iceberg import Iceberg
from monedula.landing.job import LandingJob, land
from monedula.landing.maintenance import CompactionResult, clean, compact

__all__ = [
    "CompactionResult",
    "Delta",
    "HealthServer",
    "Iceberg",
    "LandingCommit",
    "LandingJob",
    "LandingPlan",
    "LandingResult",
    "PartitionCheck",
    "TableCheck",
    "check",
    "clean",
    "compact",
    "land",
]
