"""Settings of topics, brokers and groups."""

from collections.abc import Iterable, Mapping

from monedula._arguments import truth
from monedula.admin import values
from monedula.admin.arguments import (
    Change,
    Errors,
    R,
    Resource,
    as_mapping,
    as_several,
    is_resource,
    raw_change,
    raw_names,
    raw_resource,
    raw_resource_type,
)
from monedula.admin.calls import AdminBase, Call, Method
from monedula.admin.results import Results, of_items
from monedula.admin.types import ConfigResource, ResourceType
from monedula.admin.views import Configs


class ConfigMethods(AdminBase):
    """Methods about settings."""

    @Method
    def describe_configs(
        self,
        resources: Resource | Iterable[Resource],
        *,
        names: Iterable[str] | None = None,
        documentation: bool = False,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Call[Configs]:
        """The settings of topics, brokers or groups, as a dict by name for each; as a table, one row for each setting.

        Args:
            resources: `("topic", "orders")`, `("broker", "1")`, `("group", "etl")`; a str is the name of a topic.
            names: the names of the settings; all settings if left out.
            documentation: whether to include the documentation of each setting (from Kafka 2.6 on).
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.
        """
        single = isinstance(resources, str) or is_resource(resources)
        given = [resources] if single else as_several(resources, "the name of a topic, (type, name), or several")
        raw = [raw_resource(resource) for resource in given]
        chosen = None if names is None else raw_names(names, "setting")
        operation = self._core.describe_configs(timeout, raw, chosen, truth("documentation", documentation))
        return of_items(operation, Configs, values.resource, values.configs, errors)

    @Method
    def list_config_resources(
        self, types: ResourceType | Iterable[ResourceType] = (), *, timeout: float | None = None
    ) -> Call[list[ConfigResource]]:
        """The resources that have settings (KIP-1142, from Kafka 4.1 on; `"client_metrics"` alone from 3.7 on).

        Topics and brokers are listed whether they have settings of their own or not; groups and client metrics only
        if they do.

        Args:
            types: only resources of these types: `"topic"`, `"broker"`, `"broker_logger"`, `"group"`,
                `"client_metrics"`; of all types if left out.
            timeout: seconds.
        """
        kinds = [raw_resource_type(name) for name in raw_names(types, "resource type")]
        return Call(
            self._core.list_config_resources(timeout, kinds),
            lambda answer: [values.resource(raw) for raw in answer],
        )

    @Method
    def alter_configs(
        self,
        changes: Mapping[R, Mapping[str, Change]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Call[Results[ConfigResource, None]]:
        """Change some settings, and leave the others as they are (KIP-339, from Kafka 2.3 on).

        Args:
            changes: for each resource (see `describe_configs`) its changes: a new value, `None` to go back to the
                default, `Append(value)` or `Subtract(value)` for settings that are lists.
            validate_only: only check whether the changes could be made.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.
        """
        raw = []
        for resource, settings in as_mapping(changes, "{'orders': {'retention.ms': 3600000}}").items():
            each = as_mapping(settings, "{'retention.ms': 3600000}")
            raw.append((raw_resource(resource), [raw_change(name, change) for name, change in each.items()]))
        operation = self._core.alter_configs(timeout, raw, truth("validate_only", validate_only))
        return of_items(operation, Results[ConfigResource, None], values.resource, values.nothing, errors)
