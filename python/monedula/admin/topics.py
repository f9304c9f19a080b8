"""Topics: creating, deleting, listing and describing them, and adding partitions."""

from collections.abc import Iterable, Mapping

from monedula._arguments import truth
from monedula.admin import values
from monedula.admin.arguments import (
    Errors,
    TopicDefaults,
    as_mapping,
    as_topics,
    check_distinct,
    new_topic,
    raw_name,
    raw_names,
    raw_number,
    raw_topic,
)
from monedula.admin.calls import AdminBase, Call, Method
from monedula.admin.results import Results, of_items
from monedula.admin.types import CreatedTopic, NewPartitions, NewTopic
from monedula.admin.views import Topics, TopicsDescribed


class TopicMethods(AdminBase):
    """Methods about topics."""

    @Method
    def create_topics(
        self,
        topics: str | NewTopic | Iterable[str | NewTopic],
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, object] | None = None,
        exist_ok: bool = False,
        validate_only: bool = False,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Call[Results[str, CreatedTopic]]:
        """Create topics.

        Args:
            topics: names, or `NewTopic`s for topics with values of their own.
            partitions: the number of partitions of topics given by name; the broker's default if left out.
            replication_factor: the replication factor of topics given by name; the broker's default if left out.
            configs: settings of topics given by name, such as `{"cleanup.policy": "compact"}`.
            exist_ok: whether to ignore topics that exist already: they are left as they are, and not in the result.
            validate_only: only check whether the topics could be created.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            TopicExistsError: if a topic of that name exists.
            BrokerError: if a broker refuses a topic; `code` and the message say why.
        """
        defaults = TopicDefaults(partitions, replication_factor, configs)
        new = [new_topic(topic, defaults) for topic in as_topics(topics)]
        raw = [raw_topic(topic) for topic in new]
        check_distinct([topic.name for topic in new], "topic")
        spared = ("TOPIC_ALREADY_EXISTS",) if truth("exist_ok", exist_ok) else ()
        operation = self._core.create_topics(timeout, raw, truth("validate_only", validate_only))
        return of_items(operation, Results[str, CreatedTopic], str, values.created, errors, spared)

    @Method
    def delete_topics(
        self,
        topics: str | Iterable[str],
        *,
        missing_ok: bool = False,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Call[Results[str, None]]:
        """Delete topics with all of their records.

        Args:
            topics: names.
            missing_ok: whether to ignore topics that do not exist: they are not in the result.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            UnknownTopicError: if a topic does not exist.
        """
        names = raw_names(topics, "topic")
        spared = ("UNKNOWN_TOPIC_OR_PARTITION",) if truth("missing_ok", missing_ok) else ()
        operation = self._core.delete_topics(timeout, names)
        return of_items(operation, Results[str, None], str, values.nothing, errors, spared)

    @Method
    def list_topics(self, *, internal: bool = False, timeout: float | None = None) -> Call[Topics]:
        """All topics, by name; also as a table.

        Args:
            internal: whether to include Kafka's internal topics.
            timeout: seconds.
        """
        has_internal = truth("internal", internal)

        def end(answer: values.Items) -> Topics:
            listed = values.items(answer, str, values.topic_listing)[0]
            return Topics((name, topic) for name, topic in listed if has_internal or not topic.internal)

        return Call(self._core.list_topics(timeout), end)

    @Method
    def describe_topics(
        self, topics: str | Iterable[str], *, timeout: float | None = None, errors: Errors = "raise"
    ) -> Call[TopicsDescribed]:
        """The topics, with the leader and replicas of each partition; as a table, one row for each partition.

        Args:
            topics: one name, or several.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.

        Raises:
            UnknownTopicError: if a topic does not exist.
        """
        names = raw_names(topics, "topic")
        operation = self._core.describe_topics(timeout, names)
        return of_items(operation, TopicsDescribed, str, values.topic, errors)

    @Method
    def create_partitions(
        self,
        topics: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        errors: Errors = "raise",
    ) -> Call[Results[str, None]]:
        """Add partitions to topics. Producers that hash keys then choose other partitions for the same keys.

        Args:
            topics: the total number of partitions of each topic, including the existing ones.
            validate_only: only check whether the partitions could be added.
            timeout: seconds.
            errors: `"raise"` or `"return"`, see `Admin`.
        """
        raw = []
        for topic, wanted in as_mapping(topics, "{'orders': 12}").items():
            new = wanted if isinstance(wanted, NewPartitions) else NewPartitions(wanted)
            each = (
                None if new.assignments is None else [[raw_number(b, "broker") for b in one] for one in new.assignments]
            )
            raw.append((raw_name(topic, "topic"), raw_number(new.total, "number of partitions"), each))
        operation = self._core.create_partitions(timeout, raw, truth("validate_only", validate_only))
        return of_items(operation, Results[str, None], str, values.nothing, errors)
