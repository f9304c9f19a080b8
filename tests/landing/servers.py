"""`Server`: a store or a catalog in a process of its own: moto for S3 and Glue, azurite, Iceberg's REST catalog."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.interop.installed import azurite_modules
from tests.kafka import KafkaUnavailable, jars

ROOT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"
_REST = Path(__file__).with_name("RestCatalog.java")


class Server:
    """A process that says which port it listens on.

    Args:
        command: it.
        says: a pattern of a line of its output; its group is the port.
        environment: variables besides this process's.
    """

    def __init__(self, command: Sequence[str], says: str, environment: Mapping[str, str] | None = None) -> None:
        surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **(environment or {})}
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        said = []
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said.append(line)
            if (found := re.search(says, line)) is not None:
                self.port = int(found[1])
                break
        else:
            self.close()
            raise KafkaUnavailable(f"{command[0]} ended before it listened: {''.join(said)[-2000:]}")
        threading.Thread(target=self._read_on, daemon=True).start()

    def _read_on(self) -> None:
        assert self._process.stdout is not None
        for _ in self._process.stdout:
            pass  # a full pipe would stop it

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{HOST}:{self.port}"

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def moto() -> Server:
    """S3 and Glue."""
    return Server([sys.executable, "-m", "tests.landing.moto_server"], r"listens on port (\d+)")


def azurite() -> Server:
    """Azure's blobs.

    Raises:
        KafkaUnavailable: no Node.js, or npm could not fetch it.
    """
    program = azurite_modules() / "azurite" / "dist" / "src" / "blob" / "main.js"
    options = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    command = ["node", str(program), "--blobHost", HOST, "--blobPort", "0", *options]
    return Server(command, rf"successfully listens on http://{HOST}:(\d+)")


def iceberg_rest(folder: Path) -> Server:
    """The REST catalog of Iceberg's own tests, over SQLite, with files in a folder.

    Raises:
        KafkaUnavailable: no Java, or Maven could not fetch it.
    """
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", jars.iceberg_rest()]
    told = [f"jdbc:sqlite:file:{folder}/catalog.db", f"file://{folder}/warehouse"]
    return Server([jars.java(), *options, str(_REST), *told], r"listens on port (\d+)")
