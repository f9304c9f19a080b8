"""All methods that `Admin` and `AsyncAdmin` have in common; each family has a file."""

from monedula.admin.cluster import ClusterMethods
from monedula.admin.configs import ConfigMethods
from monedula.admin.groups import GroupMethods
from monedula.admin.logs import LogMethods
from monedula.admin.topics import TopicMethods


class AdminMethods(TopicMethods, ConfigMethods, GroupMethods, LogMethods, ClusterMethods):
    """All methods of both clients that ask the cluster."""
