"""`ClientSettings`: settings of a Kafka client, which are sent to the process that creates it, driver or executor.

They travel as the user gave them. The process that makes the client looks up what config providers give, and where
files are that were shipped with `--files`: neither is the same on every machine, and a secret that is looked up there
is in no pickled task.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from monedula._config.providers import resolved
from monedula.config import RawSettings
from monedula.errors import ConfigError
from monedula.spark.options.kafka_settings import kafka_error
from monedula.spark.options.shipped import located, shipped


@dataclass(frozen=True)
class ClientSettings:
    """Printed without values: passwords may be among them."""

    given: tuple[tuple[str, str], ...] = field(repr=False)
    """By dotted name, as the user gave them."""

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> "ClientSettings":
        """Sorted, so that equal settings compare equal."""
        return cls(tuple(sorted(settings.items())))

    def here(self) -> RawSettings:
        """The settings for a client in this process."""
        try:
            found = resolved(self.given, shipped)
        except ConfigError as error:
            error.__context__ = None
            raise kafka_error(error).with_traceback(None) from None  # without the frames below, which have values
        return RawSettings((name, located(name, value)) for name, value in found)
