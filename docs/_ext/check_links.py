"""Check a built site: every link of every page leads to a file of the site, and its anchor to an element there.

python docs/_ext/check_links.py target/site
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """The links and the ids of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        found = dict(attrs)
        self.links += [link for name in ("href", "src") if (link := found.get(name))]
        self.ids |= {name for key in ("id", "name") if (name := found.get(key))}


def broken(site: Path) -> list[str]:
    """What leads nowhere, as `page: link`."""
    pages = {page.resolve(): _Page(page.read_text()) for page in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = pages.get(target)
            anchor = unquote(parts.fragment)
            if not target.exists() or (anchor and there is not None and anchor not in there.ids):
                found.append(f"{path.relative_to(site.resolve())}: {link}")
    return found


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if wrong := broken(folder):
        sys.exit("links that lead nowhere:\n" + "\n".join(wrong))
    print(f"{sum(1 for _ in folder.rglob('*.html'))} pages, no link leads nowhere")
