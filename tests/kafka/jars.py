"""Kafka's jars: fetched once through Maven into `.cache/kafka/`, shared by every run after that."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tests.kafka.errors import KafkaUnavailable

POM = Path(__file__).with_name("pom.xml")
REPOSITORY_ROOT = Path(__file__).resolve().parents[2]
CACHE_VARIABLE = "MONEDULA_KAFKA_CACHE"
"""Environment variable that moves the cache away from `.cache/kafka/`."""

JAVA_MAJOR_MIN = 17
FETCH_TIMEOUT_SECONDS = 600


def cache_directory() -> Path:
    """Where jars and the benches' topics are kept."""
    return Path(os.environ.get(CACHE_VARIABLE) or REPOSITORY_ROOT / ".cache" / "kafka")


@cache
def class_path() -> str:
    """The class path of Kafka, its tools and its clients, fetched first if it is not there.

    Raises:
        KafkaUnavailable: no Maven, or Maven could not fetch the jars.
    """
    # The pom's own digest in the name: a changed version is another folder, never a mixture of two.
    digest = hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
    libs = cache_directory() / f"libs-{digest}"
    if not libs.is_dir():
        libs.parent.mkdir(parents=True, exist_ok=True)
        with (libs.parent / "fetch.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not libs.is_dir():
                _fetch(libs)
    return f"{libs}/*"


@cache
def java() -> str:
    """The `java` to run: from `JAVA_HOME` if that is set, else from `PATH`.

    Raises:
        KafkaUnavailable: there is none, or it is older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        raise KafkaUnavailable("no `java` in JAVA_HOME or PATH: install a JDK 17 or newer")
    banner = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=60).stderr
    version = re.search(r'version "(\d+)', banner)
    if version is None or int(version[1]) < JAVA_MAJOR_MIN:
        raise KafkaUnavailable(f"{found} is not a JDK {JAVA_MAJOR_MIN} or newer; it says: {banner.strip()!r}")
    return found


def _fetch(libs: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailable(f"no `mvn` in PATH to fetch Kafka's jars into {libs}: install Maven")
    # Into a folder beside it, renamed when complete: an interrupted fetch is never taken for a whole one.
    partial = Path(tempfile.mkdtemp(prefix=f"{libs.name}.", dir=libs.parent))
    command = [maven, "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={partial}"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_SECONDS)
        if ran.returncode != 0 or not any(partial.glob("kafka_*.jar")):
            said = (ran.stdout + ran.stderr).strip()[-2000:]
            raise KafkaUnavailable(f"Maven could not fetch Kafka's jars ({' '.join(command)}):\n{said}")
        partial.chmod(0o755)  # mkdtemp keeps others out; the cache may be shared
        partial.rename(libs)
    except subprocess.TimeoutExpired as error:
        raise KafkaUnavailable(f"Maven did not fetch Kafka's jars within {FETCH_TIMEOUT_SECONDS} s") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
