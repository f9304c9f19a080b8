"""Rounds of the drill with one seed after the other: `python -m tests.landing.rounds 200`.

Exit code 1 if one fell: its seed, what happened in it and what is wrong are printed, and its folder is kept.
"""

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.groups.behaviour.stage import EmbeddedStage, KafkaStage, Stage
from tests.landing.drill import Drill
from tests.landing.worker import BUGS

TABLES = {"delta": "lake", "iceberg": "ice"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.landing.rounds", description=__doc__)
    parser.add_argument("rounds", type=int, help="of each format")
    parser.add_argument("--first", type=int, default=1, help="the first seed (default %(default)s)")
    parser.add_argument("--on", choices=("embedded", "kafka"), default="embedded", help="default %(default)s")
    parser.add_argument("--formats", default=",".join(TABLES), help="default %(default)s")
    parser.add_argument("--bug", choices=BUGS, help="have the workers do this wrong")
    options = parser.parse_args()
    fallen = 0
    happened: Counter[str] = Counter()
    with closing(KafkaStage() if options.on == "kafka" else EmbeddedStage()) as stage:
        for seed in range(options.first, options.first + options.rounds):
            for name in options.formats.split(","):
                fallen += not _holds(stage, name, seed, options.bug, happened)
                stage.mend()
    print(f"{fallen} of {options.rounds} rounds of each format fell: {dict(sorted(happened.items()))}")
    return 1 if fallen else 0


def _holds(stage: Stage, name: str, seed: int, bug: str | None, happened: Counter[str]) -> bool:
    folder, began = Path(tempfile.mkdtemp(prefix=f"drill-{name}-{seed}-")), time.monotonic()
    drill = Drill(stage, folder / TABLES[name], seed, bug=bug)
    try:
        drill.run()
        drill.verify()
    except (Exception, pytest.fail.Exception):
        print(f"{name}, seed {seed}: FELL, see {folder}: {dict(drill.events)}\n{traceback.format_exc()}", flush=True)
        return False
    finally:
        happened.update(drill.events)
    print(f"{name}, seed {seed}: {time.monotonic() - began:.0f} s, {dict(sorted(drill.events.items()))}", flush=True)
    shutil.rmtree(folder)
    return True


if __name__ == "__main__":
    sys.exit(main())
