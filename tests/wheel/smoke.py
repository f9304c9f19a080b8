"""Runs in an environment with monedula and nothing else: a round trip over sockets, and a topic if one is given."""

import importlib.util
import sys
from importlib.metadata import packages_distributions

import monedula
from monedula.testing import Broker

RECORDS = 1000


def main(arguments: list[str]) -> None:
    """Refuse a wrong setting, find all packages, send and read over a socket, and read `bootstrap topic records`."""
    if importlib.util.find_spec("pyarrow") is not None:
        raise SystemExit("this is no clean environment: pyarrow is in it")
    try:
        monedula.Consumer({"bootstrap.server": "localhost:9092"})
    except monedula.ConfigError as error:
        refused = str(error)
    else:
        raise SystemExit("an unknown setting was taken")
    if "bootstrap.servers" not in refused:
        raise SystemExit(f"the nearest setting is not named: {refused}")
    look_for_packages()
    round_trip()
    if arguments:
        read(*arguments)
    print(f"monedula {monedula.__version__} on Python {sys.version.split()[0]}: ok")


def round_trip() -> None:
    """Send records of every codec to the embedded broker, which is in the wheel, and read them."""
    with Broker() as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            broker.create_topic(codec, 2)
            with monedula.Producer({**settings, "compression.type": codec}) as producer:
                for number in range(RECORDS):
                    producer.send(codec, f"value {number}", key=str(number))
            read(broker.bootstrap_servers, codec, str(RECORDS))


def look_for_packages() -> None:
    """What Spark and pytest look for is installed beside monedula, and says what it lacks here."""
    ours = {package for package, distributions in packages_distributions().items() if "monedula" in distributions}
    if ours != {"monedula", "monedula_pytest", "pyspark_monedula"}:
        raise SystemExit(f"these packages are installed: {sorted(ours)}")
    try:
        import pyspark_monedula  # noqa: F401
    except ImportError as error:
        if "monedula[spark]" not in str(error):
            raise SystemExit(f"without Spark, what to install is not named: {error}") from error
    else:
        raise SystemExit("this is no clean environment: pyspark is in it")


def read(bootstrap: str, topic: str, records: str) -> None:
    """Read the topic as columns and as records; no Arrow library is needed for that."""
    batches = list(monedula.read({"bootstrap.servers": bootstrap}, topic))
    rows = sum(batch.num_rows for batch in batches)
    values = {record.value for batch in batches for record in batch.records()}
    expected = {f"value {number}".encode() for number in range(int(records))}
    if rows != int(records) or values != expected:
        raise SystemExit(
            f"{topic} gave {rows} rows, {len(values & expected)} of them as written, in place of {records}"
        )
    print(f"read {rows} records of {topic} from {bootstrap}")


if __name__ == "__main__":
    main(sys.argv[1:])
