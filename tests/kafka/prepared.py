"""Halves the start of the tests' JVMs: compiled helper, formatted storage, archives of loaded classes.

Done once for each release of Kafka and each JDK, and kept beside the jars.
"""

import base64
import os
import shutil
import subprocess
import uuid
import zipfile
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path

from tests.kafka import jars
from tests.kafka.errors import NodeFailed
from tests.kafka.kept import digest, kept

SOURCE = Path(__file__).with_name("Helper.java")
TIMEOUT_SECONDS = 120
ARCHIVE = "classes.jsa"
# Other lines that JVMs write to standard output: a JVM that refuses the archive works, only slower.
QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-XX:+DisplayVMOutputToStderr")


@cache
def class_path() -> str:
    """Kafka, its clients, and the helper.

    Raises:
        KafkaUnavailable: the jars cannot be had.
    """
    return compiled(SOURCE, jars.class_path())


def compiled(source: Path, libs: str) -> str:
    """A class path of these jars and what is compiled of a source with them."""
    release = Path(libs).parent.name
    name = f"{source.stem.lower()}-{digest(source)}-{release}"
    directory = kept(jars.cache_directory() / name, lambda made: _compile(source, libs, made))
    return f"{libs}{os.pathsep}{directory / 'helper.jar'}"


@cache
def loaded_before_kafka() -> list[str]:
    """Options of a JVM with a node, the helper, or both."""
    _formatted(())  # before the lock that `kept` holds
    return loaded_before("kafka", class_path(), _run_a_node)


def loaded_before(name: str, class_path: str, run: Callable[[list[str]], None]) -> list[str]:
    """Options of a JVM that maps the classes it loads from a file, parsed and verified (JEP 350).

    Args:
        name: what runs, such as `kafka`; a different archive for each.
        class_path: that of the JVM.
        run: runs such a JVM to its orderly end with the options that it is given. The first time only.
    """
    java = jars.java()
    # The archive is of exactly these jars: a JVM accepts none of others, even with the same names.
    stamps = [str(Path(part.removesuffix("*")).stat().st_mtime_ns) for part in class_path.split(os.pathsep)]
    of = sha256("\n".join([class_path, *stamps, java, _banner(java)]).encode()).hexdigest()[:12]
    directory = kept(
        jars.cache_directory() / f"loaded-{name}-{of}",
        lambda made: run([f"-XX:ArchiveClassesAtExit={made / ARCHIVE}", *QUIET]),
    )
    # A JDK that writes none does without.
    return [f"-XX:SharedArchiveFile={directory / ARCHIVE}", *QUIET] if (directory / ARCHIVE).exists() else [*QUIET]


def format_storage(data: Path, node_id: int, cluster_id: str, features: Mapping[str, int]) -> None:
    """Fill a node's `log.dirs` as `kafka-storage.sh format` does, which takes a JVM for each node.

    Args:
        data: the folder; left alone if it has been filled before.
        node_id: of the node.
        cluster_id: the same for all nodes of a cluster.
        features: levels in place of the release's own.

    Raises:
        NodeFailed: Kafka's own tool failed; the message has its output.
    """
    if (data / "meta.properties").exists():
        return
    shutil.copytree(_formatted(tuple(sorted(features.items()))), data, dirs_exist_ok=True)
    own = {"node.id": node_id, "directory.id": random_id(), "version": 1, "cluster.id": cluster_id}
    (data / "meta.properties").write_text("".join(f"{key}={value}\n" for key, value in own.items()))


def random_id() -> str:
    """A new id as Kafka writes it. Never with a dash in front, where tools take it for an option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


@cache
def _formatted(features: tuple[tuple[str, int], ...]) -> Path:
    levels = [f"--feature={name}={level}" for name, level in features]
    release = Path(jars.class_path()).parent.name
    name = "-".join(["storage", release, *(f"{name}.{level}" for name, level in features)])
    return kept(jars.cache_directory() / name, lambda made: _format(made, levels)) / "data"


def _format(made: Path, levels: list[str]) -> None:
    properties = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": "1@127.0.0.1:9093",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": made / "data",
    }
    file = made / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    tool = ["-cp", jars.class_path(), "kafka.tools.StorageTool", "format", f"--cluster-id={random_id()}"]
    _ran([jars.java(), *tool, "-c", str(file), *levels])


def _compile(source: Path, libs: str, made: Path) -> None:
    classes = made / "classes"
    # Not `javac`, which may not be on the path where `java` is.
    compiler = [jars.java(), "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    # Which has no wildcards in its class path: the launchers of `java` and `javac` expand them.
    expanded = os.pathsep.join(map(str, sorted(Path(libs).parent.glob("*.jar"))))
    _ran([*compiler, "-cp", expanded, "-d", str(classes), str(source)])
    # No archive can be made of classes in a folder.
    with zipfile.ZipFile(made / "helper.jar", "w") as jar:
        for file in sorted(classes.iterdir()):
            jar.write(file, file.name)


def _ran(command: list[str]) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    if ran.returncode != 0:
        raise NodeFailed(f"{' '.join(command)}: {ran.returncode}\n{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}")


@cache
def _banner(java: str) -> str:
    return subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60).stderr


def _run_a_node(java_options: list[str]) -> None:
    from tests.kafka.cluster import KafkaCluster  # which needs this module

    with KafkaCluster(java_options=java_options) as cluster:
        cluster.helper.create_topic("any", partitions=2)
        cluster.helper.produce("any", [{"value": "x"}], codec="zstd")
        cluster.helper.produce("any", [{"value": "x"}], transaction="commit")
        cluster.stop(1)
