"""Makes the links of README.md absolute, for the page on PyPI, which has no other files.

python -m tests.wheel.readme https://github.com/OWNER/NAME REVISION

Run it before a wheel or source distribution is built for a release: its description is README.md as it is then.
"""

import re
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"
LINK = re.compile(r"(!?\[[^\]]*\]\()(?![a-z][a-z+.-]*:|#)([^()\s]+)(?=\))")


def absolute(text: str, repository: str, revision: str) -> str:
    """The text with absolute links to files of the repository at a revision; pictures to their bytes."""

    def link(found: re.Match[str]) -> str:
        kind = "raw" if found[1].startswith("!") else "blob"
        return f"{found[1]}{repository}/{kind}/{revision}/{found[2]}"

    return LINK.sub(link, text)


if __name__ == "__main__":
    README.write_text(absolute(README.read_text(), *sys.argv[1:]))
