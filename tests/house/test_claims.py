"""Claims of the pages about what there is not: each has a check that fails once the thing is there."""

import re
import tomllib
from collections.abc import Callable, Mapping
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import monedula
import pytest
from pyspark.sql import datasource

from tests.house.test_crates import ARROWS

ROOT = Path(__file__).resolve().parents[2]


def has_groups_of(kind: str) -> bool:
    return any(kind in name for module in (monedula, monedula.admin) for name in dir(module))


def runs_its_tests_on_linux_alone() -> bool:
    jobs = (ROOT / ".github/workflows/test.yml").read_text()
    return set(re.findall(r"runs-on: (\w+)", jobs)) == {"ubuntu"}


def is_in_alpha() -> bool:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return version("monedula").startswith("0.") and "Development Status :: 3 - Alpha" in project["classifiers"]


def lacks(methods: str, *kinds: type) -> bool:
    """Whether Spark's interface for Python has no such method, which a source could offer."""
    return not any(re.search(methods, name, re.IGNORECASE) for kind in kinds for name in dir(kind))


READERS = (datasource.DataSourceReader, datasource.DataSourceStreamReader)
CLAIMS: Mapping[str, Mapping[str, Callable[[], bool]]] = {
    "README.md": {
        "there is no Kafka Streams": lambda: not has_groups_of("Streams"),
        "It is tested on Linux, and in alpha": lambda: runs_its_tests_on_linux_alone() and is_in_alpha(),
    },
    "docs/index.md": {
        "No Kafka Streams.": lambda: not has_groups_of("Streams"),
        "Tested on Linux only.": runs_its_tests_on_linux_alone,
        "No stable interface yet": is_in_alpha,
    },
    "CHANGELOG.md": {
        "There is no Kafka Streams.": lambda: not has_groups_of("Streams"),
        "It is tested on Linux alone, and in alpha": lambda: runs_its_tests_on_linux_alone() and is_in_alpha(),
    },
    "docs/spark.md": {
        "No column pruning": lambda: lacks("prune|columns", *READERS),
        "No metrics of sources": lambda: lacks("metric", *READERS),
        "No preferred locations": lambda: lacks("preferred|location", *READERS, datasource.InputPartition),
        "No real-time mode": lambda: lacks("real_?time", datasource.DataSourceStreamReader),
        "No output mode `update`, and no default save mode": lambda: lacks(
            "mode", datasource.DataSourceWriter, datasource.DataSourceStreamWriter
        ),
    },
}


@pytest.mark.parametrize(("page", "claim"), [(page, claim) for page, claims in CLAIMS.items() for claim in claims])
def test_what_a_page_says_there_is_not_is_not_there(page: str, claim: str) -> None:
    assert claim in " ".join((ROOT / page).read_text().split()), "the page says it no more: take its check away"
    assert CLAIMS[page][claim](), "it is there: the page has to say so"


@pytest.mark.parametrize("page", ["docs/index.md", "docs/spark.md"])
def test_each_such_claim_has_a_check(page: str) -> None:
    claims = re.findall(r"^- \*\*(No [^*]*|[^*]* only\.)\*\*", (ROOT / page).read_text(), flags=re.MULTILINE)
    assert claims
    assert set(claims) <= set(CLAIMS[page])


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md", "docs/index.md"])
@pytest.mark.parametrize("subject", ["kafka streams", "tested on Linux", "in alpha"])
def test_these_pages_name_the_same_that_there_is_not(page: str, subject: str) -> None:
    assert subject in " ".join((ROOT / page).read_text().split()).lower().replace("linux", "Linux")


def test_the_page_of_crates_lists_each_and_draws_their_arrows() -> None:
    page = (ROOT / "rust/README.md").read_text()
    assert re.findall(r"^- \[(\w+)\]\(\1\)", page, flags=re.MULTILINE) == list(ARROWS)
    drawn: dict[str, set[str]] = {crate: set() for crate in ARROWS}
    for chain in re.search(r"```\n(.*?)```", page, flags=re.DOTALL)[1].split(";"):  # type: ignore[index]
        links = [[name.strip() for name in link.split(",")] for link in chain.split("<-")]
        for lower, upper in pairwise(links):
            for crate in upper:
                drawn[crate] |= set(lower)
    for crate, below in drawn.items():
        reached = below.union(*(drawn[each] for each in below))
        assert below <= ARROWS[crate] <= reached | {each for crate in reached for each in drawn[crate]}, crate
