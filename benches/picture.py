"""A picture of how fast peers read: `python -m benches.picture results.json > docs/reading.svg`.

`results.json` is what `benches/harness.py --output` wrote. A bar is the median of a peer's rounds, in records a second;
beside it stands how many times as fast monedula is. It follows the reader's choice of a light or a dark page.
"""

import json
import statistics
import sys
from collections import defaultdict
from html import escape
from pathlib import Path
from typing import Any

NAMES = {
    "monedula": "monedula, into Arrow",
    "confluent_pyarrow": "confluent-kafka into pyarrow",
    "aiokafka": "aiokafka, no Arrow",
    "java": "Java, no Arrow",
    "franz_go": "franz-go, no Arrow",
}
"""The peers that are drawn, from top to bottom."""

CODECS = {"none": "uncompressed", "lz4": "lz4", "zstd": "zstd"}
ROW, LEFT, BAR, RIGHT, TITLE = 22, 220, 420, 160, 34
STYLE = """
text { font: 13px system-ui, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2937 }
.title { font-weight: 600 } .ours { fill: #c2410c } .peer { fill: #94a3b8 } .small { fill: #4b5563; font-size: 12px }
@media (prefers-color-scheme: dark) {
  text { fill: #e5e7eb } .ours { fill: #fb923c } .peer { fill: #64748b } .small { fill: #9ca3af }
}
"""


def rates(runs: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Records a second, by codec and peer: medians over the rounds that ended."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        if run["peer"] in NAMES and run["security"] == "PLAINTEXT" and not run["error"]:
            found[run["codec"], run["peer"]].append(run["records"] / run["seconds"])
    return {
        codec: {peer: statistics.median(found[codec, peer]) for peer in NAMES if (codec, peer) in found}
        for codec in CODECS
        if any(codec == of for of, _ in found)
    }


def drawn(results: dict[str, Any]) -> str:
    """The picture, as SVG."""
    by_codec = rates(results["runs"])
    most = max(rate for peers in by_codec.values() for rate in peers.values())
    lines, y = [], 0
    for codec, peers in by_codec.items():
        y += TITLE
        lines.append(f'<text class="title" x="{LEFT}" y="{y - 10}">{CODECS[codec]}</text>')
        for peer, rate in peers.items():
            width = max(1.0, BAR * rate / most)
            kind = "ours" if peer == "monedula" else "peer"
            times = "" if kind == "ours" else f" ({peers['monedula'] / rate:.1f}x)"
            lines.append(f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(NAMES[peer])}</text>')
            lines.append(f'<rect class="{kind}" x="{LEFT}" y="{y + 3}" width="{width:.1f}" height="{ROW - 6}" rx="2"/>')
            lines.append(f'<text x="{LEFT + width + 6:.1f}" y="{y + 14}">{rate / 1e6:.1f} M/s{times}</text>')
            y += ROW
    on, of = results["machine"], results["datasets"][0]
    said = f"{of['records']:,} records, a real Kafka on the same machine: {on['cpu']}, {on['date']}"
    lines.append(f'<text class="small" x="{LEFT}" y="{y + 20}">{escape(said)}</text>')
    size = f'viewBox="0 0 {LEFT + BAR + RIGHT} {y + 30}" width="{LEFT + BAR + RIGHT}" height="{y + 30}"'
    title = "Records read in a second, by client and codec; in brackets how many times as fast monedula is"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            f"<title>{title}</title>",
            f"<style>{STYLE}</style>",
            *lines,
            "</svg>",
        ]
    )


if __name__ == "__main__":
    print(drawn(json.loads(Path(sys.argv[1]).read_text())))
