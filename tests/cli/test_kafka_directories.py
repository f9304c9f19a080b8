"""`monedula log-dirs` on a real Kafka whose node has two directories."""

import re
import time
from pathlib import Path

import pytest

from tests.cli.processes import output
from tests.conftest import give_up
from tests.kafka import KafkaCluster, KafkaUnavailable, prepared

PATIENCE_SECONDS = 60.0


class TwoDirectories(KafkaCluster):
    """One node with the directories `data` and `more`."""

    def __init__(self, directory: Path) -> None:
        self.paths = [str(directory / "node-1" / name) for name in ("data", "more")]
        super().__init__(1, directory=directory, config={"log.dirs": ",".join(self.paths)})

    def _format(self) -> None:
        super()._format()
        first, second = map(Path, self.paths)
        second.mkdir()
        text = (first / "meta.properties").read_text()
        own = re.sub(r"(?m)^directory\.id=.*$", f"directory.id={prepared.random_id()}", text)
        (second / "meta.properties").write_text(own)


@pytest.mark.jvm
def test_a_replica_moves_between_two_directories(tmp_path: Path) -> None:
    cluster = TwoDirectories(tmp_path)
    try:
        cluster.__enter__()
    except KafkaUnavailable as error:
        give_up(error)
    try:
        servers = cluster.bootstrap
        output("topics", "create", "orders", "-p", "1", servers=servers)
        output("produce", "orders", servers=servers, stdin=b"a\nb\n")

        def places() -> list[str]:
            text = output("log-dirs", "replicas", "--topic", "orders", servers=servers)
            return [line.split("\t")[1] for line in text.splitlines()]

        (before,) = places()
        (after,) = set(cluster.paths) - {before}
        output("log-dirs", "move", "orders", "--broker", "1", "--to", after, "--yes", servers=servers)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while places() != [after]:
            assert time.monotonic() < deadline, "the replica did not move"
        assert output("consume", "orders", servers=servers) == "a\nb\n"
    finally:
        cluster.close()
