"""A picture of rolling bounces, `python -m benches.groups.picture FILE > SVG`, of what `benches.groups --save` wrote.

One strip for each of the compared: a row for each partition, time from left to right, dark where its records came,
white where none came for longer than `STOPPED_MS`. A tick above a strip is a member that was closed and started again.
"""

import json
import sys
from html import escape
from pathlib import Path
from typing import Any

ROW, LEFT, WIDTH, GAP, TITLE = 2, 210, 900, 16, 14
COLOURS = {"monedula": "#1b6ca8", "confluent": "#8a8a8a", "java": "#b08a4a"}


def main() -> int:
    """Read, draw, print."""
    strips: list[dict[str, Any]] = json.loads(Path(sys.argv[1]).read_text())
    seconds = max(strip["seconds"] for strip in strips)
    height = 0
    drawn = []
    for strip in strips:
        drawn.append(_strip(strip, height, WIDTH / seconds))
        height += TITLE + strip["partitions"] * ROW + GAP
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{height + 24}" '
        'font-family="sans-serif" font-size="11">'
    )
    print('<rect width="100%" height="100%" fill="white"/>')
    print("\n".join(drawn))
    for at in range(0, int(seconds) + 1, 5):
        print(f'<text x="{LEFT + at * WIDTH / seconds:.0f}" y="{height + 12}" text-anchor="middle">{at} s</text>')
    print("</svg>")
    return 0


def _strip(strip: dict[str, Any], top: int, scale: float) -> str:
    """One of the compared."""
    partitions, y = strip["partitions"], top + TITLE
    client, _, policy = strip["arm"].partition("/")
    told = f"{strip['stopped']:,.0f} partition-seconds stopped"
    lines = [
        f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end" font-weight="bold">{escape(policy)}</text>',
        f'<text x="{LEFT - 8}" y="{y + 30}" text-anchor="end">{escape(client)}</text>',
        f'<text x="{LEFT - 8}" y="{y + 46}" text-anchor="end" fill="#555">{told}</text>',
        _rect(LEFT, y, strip["seconds"] * scale, partitions * ROW, COLOURS[client]),
    ]
    for partition, since, until in strip["gaps"]:
        x, width = LEFT + since * scale, (until - since) * scale
        lines.append(_rect(x, y + partition * ROW, width, ROW, "white"))
    lines += [
        f'<line x1="{LEFT + at * scale:.1f}" x2="{LEFT + at * scale:.1f}" y1="{y - 6}" y2="{y}" stroke="#c00"/>'
        for at in strip["bounces"]
    ]
    return "\n".join(lines)


def _rect(x: float, y: float, width: float, height: float, fill: str) -> str:
    return f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}" fill="{fill}"/>'


if __name__ == "__main__":
    sys.exit(main())
