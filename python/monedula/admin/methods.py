"""All methods that `Admin` and `AsyncAdmin` have in common; each family has a file."""

from monedula.admin.acls import AclMethods
from monedula.admin.cluster import ClusterMethods
from monedula.admin.configs import ConfigMethods
from monedula.admin.groups import GroupMethods
from monedula.admin.logs import LogMethods
from monedula.admin.quotas import QuotaMethods
from monedula.admin.scram import ScramMethods
from monedula.admin.tokens import TokenMethods
from monedula.admin.topics import TopicMethods
from monedula.admin.transactions import TransactionMethods


class AdminMethods(
    TopicMethods,
    ConfigMethods,
    GroupMethods,
    LogMethods,
    ClusterMethods,
    AclMethods,
    ScramMethods,
    QuotaMethods,
    TokenMethods,
    TransactionMethods,
):
    """All methods of both clients that send requests."""
