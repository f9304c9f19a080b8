"""README.md is the description on PyPI, which shows it without the repository's files."""

import re
from pathlib import Path

from tests.house.test_links import is_there, links
from tests.wheel.readme import README, absolute

REPOSITORY = "https://localhost/owner/name"


PYPI_COLUMNS = 95
"""Letters of code that PyPI shows in a line before there is a scroll bar."""


def test_lines_of_code_fit_the_column_of_pypi() -> None:
    blocks = re.findall(r"```\w*\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) > 5
    assert [line for block in blocks for line in block.splitlines() if len(line) > PYPI_COLUMNS] == []


def test_no_relative_link_is_left_for_pypi(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text(absolute(README.read_text(), REPOSITORY, "v1"))
    assert len(links(README)) > 10
    assert links(page) == []


def test_an_absolute_link_names_the_same_file() -> None:
    made = re.findall(rf"{REPOSITORY}/(?:blob|raw)/v1/([^()\s]+)\)", absolute(README.read_text(), REPOSITORY, "v1"))
    assert made == links(README)
    assert [target for target in made if not is_there(README, target)] == []


def test_pictures_are_linked_as_bytes_and_other_links_stay() -> None:
    text = "![a picture](docs/a.svg) [web](https://localhost/) [here](#there) `[code]`"
    made = f"![a picture]({REPOSITORY}/raw/v1/docs/a.svg) [web](https://localhost/) [here](#there) `[code]`"
    assert absolute(text, REPOSITORY, "v1") == made
