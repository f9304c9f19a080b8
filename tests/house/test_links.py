"""Every relative link of every page leads to a file, and its anchor to a heading there."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.house.test_repository import ROOT, tracked

FENCED = re.compile(r"^ *(```|~~~).*?^ *\1 *$", flags=re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r'\]\(([^()\s]+)[^()]*\)|^\[[^\]]+\]: *(\S+)|\b(?:href|src)="([^"]+)"', flags=re.MULTILINE)
HEADING = re.compile(r"^#{1,6} +(.*?)[ #]*$", flags=re.MULTILINE)
ELSEWHERE = re.compile(r"[a-z][a-z+.-]*:|//")


def links(page: Path) -> list[str]:
    """The links of a page to files of this repository."""
    text = INLINE.sub("", FENCED.sub("", page.read_text()))
    targets = [next(filter(None, groups)) for groups in LINK.findall(text)]
    return [target for target in targets if not ELSEWHERE.match(target)]


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    seen, found = Counter[str](), set()
    for heading in HEADING.findall(FENCED.sub("", page.read_text())):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return found


def is_there(page: Path, target: str, root: Path = ROOT) -> bool:
    name, _, anchor = target.partition("#")
    path = (page.parent / name).resolve() if name else page
    if not path.is_relative_to(root) or not path.exists():
        return False
    return not anchor or (path.suffix == ".md" and anchor in anchors(path))


def test_every_link_leads_somewhere() -> None:
    pages = [ROOT / name for name in tracked() if name.endswith(".md")]
    found = [(page, target) for page in pages for target in links(page)]
    assert len(found) > 100
    assert [(str(page.relative_to(ROOT)), target) for page, target in found if not is_there(page, target)] == []


@pytest.mark.parametrize(
    ("target", "there"),
    [
        ("other.md", True),
        ("other.md#its-heads-and-format", True),
        ("#here-1", True),
        ("gone.md", False),
        ("other.md#gone", False),
        ("#in-code", False),
        ("../outside.md", False),
    ],
)
def test_what_is_not_there_is_found(target: str, there: bool, tmp_path: Path) -> None:
    root = tmp_path / "repository"
    root.mkdir()
    page = root / "page.md"
    code = "```\n# In code\n[no](link)\n```\n`[no](link)`"
    page.write_text(f"# Here\n\n# Here\n\n{code} [text]({target}) [web](https://localhost/x)\n")
    (root / "other.md").write_text("## Its head's, and `format`\n")
    (tmp_path / "outside.md").touch()
    assert links(page) == [target]
    assert is_there(page, target, root) is there
