"""The errors of `tests.kafka`, by what the caller does next."""


class KafkaError(Exception):
    """Base of everything raised by `tests.kafka`."""


class KafkaUnavailable(KafkaError):
    """Kafka cannot run on this machine: no JDK, no Maven, or the jars cannot be had. The message says which."""


class NodeFailed(KafkaError):
    """A node ended, or did not become ready in time. The message carries the end of its log."""


class HelperError(KafkaError):
    """Java refused a command.

    Attributes:
        error: simple name of the Java exception class, for example `TopicExistsException`.
    """

    def __init__(self, command: str, error: str, message: str) -> None:
        super().__init__(f"{command}: {error}: {message}")
        self.error = error
