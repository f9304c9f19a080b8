"""`python -m tests.prepare`: makes what JVMs of tests start faster with, once for each JDK, Kafka and Spark.

Before any test runs: written beside the others, the archive of Spark's classes took longer than a test may, and the
session's fixture failed for all tests.
"""

from tests.interop import java
from tests.kafka import KafkaUnavailable, prepared
from tests.spark._support import session


def main() -> None:
    """Make the archives of loaded classes, if they are not there."""
    try:
        prepared.loaded_before_kafka()
        session.loaded_before()
        java.loaded_before()
    except KafkaUnavailable as error:
        print(f"tests with a JVM will be skipped, or fail with CI=true: {error}")


if __name__ == "__main__":
    main()
