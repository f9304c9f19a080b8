"""docs/broker.md: its examples run as they stand; its table of effects matches the code."""

import inspect
import logging
import re
from pathlib import Path

import pytest
from monedula.testing import Broker

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs/broker.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
IMPORTS = "import logging\nimport monedula\nimport pyarrow\nfrom monedula.testing import Broker\n"

pytest_plugins = ["pytester"]


@pytest.mark.parametrize("source", [each for each in EXAMPLES if "def test_" not in each])
def test_an_example_runs(source: str) -> None:
    logger = logging.getLogger("monedula.broker")
    before = logger.level
    try:
        exec(compile(IMPORTS + source, str(GUIDE), "exec"), {})
    finally:
        logger.setLevel(before)


def test_the_examples_for_pytest_pass_where_nothing_is_configured(pytester: pytest.Pytester) -> None:
    (source,) = (each for each in EXAMPLES if "def test_" in each)
    pytester.makepyfile(source)
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_the_table_has_every_effect() -> None:
    rows = [line for line in GUIDE.read_text().splitlines() if line.startswith("| `")]
    told = {name for row in rows for name in re.findall(r"`(\w+)=", row.split("|")[1])}
    not_effects = {"whole", "skip", "count", "probability", "fragment_pause_ms", "corrupt_offset", "corrupt_bytes"}
    selecting = set(inspect.signature(Broker.observe).parameters)
    assert set(inspect.signature(Broker.fault).parameters) - selecting - not_effects == told
