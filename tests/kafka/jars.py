"""Jars of Kafka, Spark's connector and serdes: fetched once through Maven into `.cache/kafka/`, and kept."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.kafka.errors import KafkaUnavailable
from tests.kafka.kept import digest, kept

REPOSITORY_ROOT = Path(__file__).resolve().parents[2]
CACHE_VARIABLE = "MONEDULA_KAFKA_CACHE"
"""Environment variable that moves the cache away from `.cache/kafka/`."""
WITHOUT_JVM_VARIABLE = "MONEDULA_TESTS_WITHOUT_JVM"
"""Environment variable of `make check`: a test that wants a JVM all the same is an error."""

VERSION_VARIABLE = "MONEDULA_KAFKA_VERSION"
"""Environment variable that names another Apache Kafka than that of pom.xml: `3.9.2`."""

JAVA_MAJOR_MIN = 17
FETCH_TIMEOUT_SECONDS = 600


@dataclass(frozen=True)
class JarSet:
    """Jars that belong together.

    Attributes:
        what: their name in error messages.
        pom: the file that names them and their versions.
        goal: the goal of Maven that copies them.
        prefix: the beginning of their folder's name in the cache.
        proof: a pattern that one of the jars matches.
    """

    what: str
    pom: Path
    goal: str
    prefix: str
    proof: str


KAFKA = JarSet(
    "Kafka's jars", Path(__file__).with_name("pom.xml"), "dependency:copy-dependencies", "libs", "kafka_*.jar"
)
SPARK_CONNECTOR = JarSet(
    "the jars of Spark's Kafka connector",
    Path(__file__).with_name("spark.xml"),
    "dependency:copy",
    "spark",
    "spark-sql-kafka-*.jar",
)
DELTA = JarSet(
    "the jars of Delta Lake for Spark",
    Path(__file__).with_name("delta.xml"),
    "dependency:copy",
    "delta",
    "delta-spark_*.jar",
)
ICEBERG = JarSet(
    "the jars of Iceberg for Spark 4.1",
    Path(__file__).with_name("iceberg.xml"),
    "dependency:copy",
    "iceberg",
    "iceberg-spark-runtime-*.jar",
)
SERDES = JarSet(
    "the jars of Apicurio's and AWS Glue's serdes",
    Path(__file__).with_name("serdes.xml"),
    "dependency:copy-dependencies",
    "serdes",
    "schema-registry-serde-*.jar",
)
ICEBERG_REST = JarSet(
    "the jars of Iceberg's REST catalog",
    REPOSITORY_ROOT / "tests" / "landing" / "rest.xml",
    "dependency:copy-dependencies",
    "iceberg-rest",
    "iceberg-core-*-tests.jar",
)


def cache_directory() -> Path:
    """The folder of jars and of the benches' topics."""
    return Path(os.environ.get(CACHE_VARIABLE) or REPOSITORY_ROOT / ".cache" / "kafka")


@cache
def class_path() -> str:
    """The class path of Kafka and its clients, fetched first if it is not there.

    Raises:
        KafkaUnavailable: no Maven, or Maven could not fetch the jars.
    """
    return f"{_directory(KAFKA)}/*"


@cache
def tools_class_path() -> str:
    """The class path of Kafka's command line tools, of the newest version that has them, with its clients.

    Tools only run with the clients of their own version: 4.4 moved classes that those of 4.3 use.

    Raises:
        KafkaUnavailable: no Maven, or Maven could not fetch the jars.
    """
    return f"{_kafka(_tools_of(kafka_version()))}/*"


@cache
def spark_connector() -> tuple[Path, ...]:
    """The jars of Spark's own Kafka source, format `kafka`, fetched first if they are not there.

    Raises:
        KafkaUnavailable: no Maven, or Maven could not fetch the jars.
    """
    return tuple(sorted(_directory(SPARK_CONNECTOR).glob("*.jar")))


@cache
def delta() -> tuple[Path, ...]:
    """The jars of Delta Lake for Spark, fetched first if they are not there.

    Raises:
        KafkaUnavailable: no Maven, or Maven could not fetch the jars.
    """
    return tuple(sorted(_directory(DELTA).glob("*.jar")))


@cache
def iceberg() -> tuple[Path, ...]:
    """The jars of Iceberg for Spark 4.1, fetched first if they are not there.

    Raises:
        KafkaUnavailable: no Maven, or Maven could not fetch the jars.
    """
    return tuple(sorted(_directory(ICEBERG).glob("*.jar")))


@cache
def serdes() -> str:
    """The class path of Apicurio's and AWS Glue's serdes, fetched first if they are not there.

    Raises:
        KafkaUnavailable: no Maven, or Maven could not fetch the jars.
    """
    return f"{_directory(SERDES)}/*"


@cache
def iceberg_rest() -> str:
    """The class path of Iceberg's REST catalog, fetched first if it is not there.

    Raises:
        KafkaUnavailable: no Maven, or Maven could not fetch the jars.
    """
    return f"{_directory(ICEBERG_REST)}/*"


@cache
def java() -> str:
    """The `java` to run: from `JAVA_HOME` if that is set, else from `PATH`.

    Raises:
        KafkaUnavailable: there is none, or it is older than 17.
        RuntimeError: `make check` runs the test, which has to carry the mark `jvm`.
    """
    if os.environ.get(WITHOUT_JVM_VARIABLE):
        raise RuntimeError("a test of `make check` wants a JVM: give it the mark `jvm`")
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        raise KafkaUnavailable("no `java` in JAVA_HOME or PATH: install a JDK 17 or newer")
    banner = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=60).stderr
    version = re.search(r'version "(\d+)', banner)
    if version is None or int(version[1]) < JAVA_MAJOR_MIN:
        raise KafkaUnavailable(f"{found} is not a JDK {JAVA_MAJOR_MIN} or newer; it says: {banner.strip()!r}")
    return found


def kafka_version() -> str:
    """The version of Apache Kafka that tests run: that of pom.xml, unless `MONEDULA_KAFKA_VERSION` names another."""
    return os.environ.get(VERSION_VARIABLE) or _of_pom("kafka.version")


def speaks(minor: str) -> bool:
    """Whether the Kafka that tests run is of this minor version or newer, as in `speaks("4.0")`."""
    return _numbers(kafka_version()) >= _numbers(minor)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


def _of_pom(name: str) -> str:
    found = re.search(rf"<{re.escape(name)}>(.+?)</", KAFKA.pom.read_text())
    assert found is not None, name
    return found[1]


def _directory(wanted: JarSet) -> Path:
    if wanted is KAFKA:
        return _kafka(kafka_version())
    return kept(cache_directory() / f"{wanted.prefix}-{digest(wanted.pom)}", lambda libs: _fetch(wanted, libs))


def _kafka(version: str) -> Path:
    directory = cache_directory() / f"{KAFKA.prefix}-{digest(KAFKA.pom)}"
    if version == _of_pom("kafka.version"):
        return kept(directory, lambda libs: _fetch(KAFKA, libs))
    properties = (f"-Dkafka.version={version}", f"-Dkafka.tools.version={_tools_of(version)}")
    return kept(Path(f"{directory}-{version}"), lambda libs: _fetch(KAFKA, libs, *properties))


def _tools_of(version: str) -> str:
    """The tools of this version, or the newest that there are."""
    newest = _of_pom("kafka.tools.version")
    return version if _numbers(version) < _numbers(newest) else newest


def _fetch(wanted: JarSet, libs: Path, *properties: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailable(f"no `mvn` in PATH to fetch {wanted.what} into {libs.parent}: install Maven")
    command = [maven, "-q", "-B", "-f", str(wanted.pom), wanted.goal, f"-DoutputDirectory={libs}", *properties]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise KafkaUnavailable(f"Maven did not fetch {wanted.what} within {FETCH_TIMEOUT_SECONDS} s") from error
    if ran.returncode != 0 or not any(libs.glob(wanted.proof)):
        said = (ran.stdout + ran.stderr).strip()[-2000:]
        raise KafkaUnavailable(f"Maven could not fetch {wanted.what} ({' '.join(command)}):\n{said}")
