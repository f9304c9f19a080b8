"""`Admin`, the synchronous admin client: topics, settings, groups and their offsets, the cluster."""

from typing import Any, Self

from monedula._migration_hints import tells
from monedula.admin.calls import BlockingClient, Function, with_methods
from monedula.admin.methods import AdminMethods


def _blocking(call: Function) -> Function:
    def method(self: "Admin", *args: Any, **kwargs: Any) -> Any:
        operation, end = call(self, *args, **kwargs)
        return end(operation.outcome())

    return method


@tells
@with_methods(_blocking)
class Admin(AdminMethods, BlockingClient):
    """Administers a cluster.

    Connects with the first call. Methods may be called from several threads. Retriable errors are retried until
    `timeout` is over (in seconds; `default.api.timeout.ms` if left out).

    **Errors.** A call about one topic, partition, group or resource raises the error of it. A call about several raises
    `AdminErrors`, with the results of those that succeeded (`results`) and the errors of those that failed (`errors`).
    With `errors="return"` such errors are not raised: the call returns a dict of those that succeeded, whose attribute
    `errors` has the errors of the others.

    Args:
        config: settings by Kafka's names as a dict; `bootstrap.servers` is required.
        **settings: settings with underscores for dots.

    Examples:
        with Admin({"bootstrap.servers": "localhost:9092"}) as admin:
            admin.create_topics("orders", partitions=6, configs={"retention.ms": 86_400_000})
            print(admin.group_lag("etl").total)
    """

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, timeout: float = 5.0) -> None:
        """Close the connections; waits in other threads end with `ClosedError`. May be called again.

        Args:
            timeout: seconds that the connections may take to close.
        """
        self._is_closed = True
        self._core.close(timeout)
