"""What the site is built from: its index names every page, and the check of its links finds broken ones."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from monedula.testing import Broker

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
CHECK = DOCS / "_ext/check_links.py"


def navigation() -> list[str]:
    trees = re.findall(r"```\{toctree\}\n(.*?)```", (DOCS / "index.md").read_text(), flags=re.DOTALL)
    lines = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
    return [re.sub(r".*<(.*)>", r"\1", line) for line in lines]


def test_the_index_names_every_page_once() -> None:
    pages = [path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")]
    assert sorted(navigation()) == sorted(set(pages) - {"index"}), "docs/index.md: add the page to a toctree"


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.stem)
def test_a_page_begins_with_its_title_and_says_what_it_is_for(path: Path) -> None:
    first, _, second = path.read_text().split("\n", 3)[:3]
    assert re.fullmatch(r"# \S.*", first)
    assert re.match(r"\w|\[|`", second)


def test_every_page_with_examples_has_a_test_that_runs_them() -> None:
    pages = [path.relative_to(ROOT).as_posix() for path in DOCS.rglob("*.md") if "```python\n" in path.read_text()]
    tests = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    named = [
        page
        for page in pages
        if any(f"{page}: " in text or f'"{page}"' in text or f"{page}, " in text for text in tests)
    ]
    assert sorted(set(pages) - {*named, "docs/index.md"}) == []


def test_the_picture_of_a_terminal_can_be_drawn_again(tmp_path: Path) -> None:
    drawn = tmp_path / "terminal.svg"
    subprocess.run([sys.executable, DOCS / "_ext/terminal.py", drawn], check=True, timeout=120)
    for picture in (drawn, DOCS / "terminal.svg"):
        text = picture.read_text()
        assert "billing" in text
        assert "font-face" not in text


def test_the_first_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", (DOCS / "index.md").read_text(), flags=re.DOTALL)
    with Broker(topics=["orders:1"]) as broker:
        broker.append("orders", ["order"])
        source = source.replace("localhost:9092", broker.bootstrap_servers).replace("timeout=10.0", "timeout=3.0")
        exec(compile(source, "index.md", "exec"), {})
    assert "order" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("link", "broken"),
    [
        ("other.html#here", False),
        ("https://localhost/", False),
        ("picture.svg", True),
        ("other.html#gone", True),
        ("#gone", True),
    ],
)
def test_the_check_of_links_finds_what_leads_nowhere(link: str, broken: bool, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(f'<a href="{link}">a link</a>')
    (tmp_path / "other.html").write_text('<h1 id="here">A title</h1>')
    ran = subprocess.run([sys.executable, CHECK, tmp_path], capture_output=True, text=True, timeout=60)
    assert (ran.returncode != 0) is broken
    assert (f"page.html: {link}" in ran.stderr) is broken
