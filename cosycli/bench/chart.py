"""Draws a run of `cosy bench`: bars of first-chunk latency and real-time factor, as one HTML page or as a PNG.

Both are drawn from the same list of bars and words, so they look alike.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from cosycli.bench.figures import FIGURES

Result = Mapping[str, Any]

PANELS = (
    ("First-chunk latency, ms (p50, p95, p99)", ("latency_p50", "latency_p95", "latency_p99")),
    ("Real-time factor", ("real_time_factor",)),
)
COLOURS = ("#2a6f97", "#61a5c2", "#8fbccf")  # told apart in grey too, and on white as on black
LEFT, WIDTH, RIGHT, BAR, SPACE, TITLE = 250, 440, 110, 18, 14, 34  # pixels

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width"/>
<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em }}
table {{ border-collapse: collapse }} td, th {{ padding: .2em 1em .2em 0; text-align: right }}
td:first-child, th:first-child {{ text-align: left }} tr {{ border-bottom: 1px solid #8888 }}
svg {{ max-width: 100%; height: auto }} text {{ fill: currentColor }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{about}</p>
{content}
</body>
</html>
"""


@dataclass(frozen=True)
class Bar:
    """A bar; `y` is its top."""

    x: float
    y: float
    length: float
    colour: str


@dataclass(frozen=True)
class Words:
    """Words at (x, y), which is the middle of their left end, or of their right end."""

    x: float
    y: float
    text: str
    to_the_left: bool = False
    title: bool = False


def html(run: Mapping[str, Any], about: Sequence[str]) -> str:
    """One page that needs nothing else, light or dark as the reader's system. Well-formed XML."""
    drawing = svg(list(layout(run["results"])), height(run["results"]))
    return page("cosy bench", about, drawing + "\n" + _table(run["results"]))


def page(title: str, about: Sequence[str], content: str) -> str:
    """A page with a title, lines about it, and content that is HTML."""
    return PAGE.format(title=escape(title), about="<br/>\n".join(map(escape, about)), content=content)


def svg(parts: Sequence[Bar | Words], height: float) -> str:
    """Bars and words as a drawing."""
    drawing = "\n".join(map(_svg, parts))
    head = f'xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {LEFT + WIDTH + RIGHT} {height:g}"'
    return f'<svg {head} font-size="13">\n{drawing}\n</svg>'


def png(run: Mapping[str, Any], about: Sequence[str]) -> bytes:
    """The same on white, by Pillow, which must be installed."""
    from PIL import Image, ImageDraw, ImageFont

    top = 22 * len(about) + 10
    image = Image.new("RGB", (2 * (LEFT + WIDTH + RIGHT), 2 * (top + height(run["results"]))), "white")
    draw = ImageDraw.Draw(image)
    small, large = ImageFont.load_default(24), ImageFont.load_default(30)
    remarks = [Words(10, 22 * line + 16 - top, text) for line, text in enumerate(about)]
    for part in (*remarks, *layout(run["results"])):
        x, y = 2 * part.x, 2 * (part.y + top)
        if isinstance(part, Bar):
            draw.rectangle((x, y, x + 2 * part.length, y + 2 * (BAR - 2)), fill=part.colour)
        else:
            anchor = "rm" if part.to_the_left else "lm"
            draw.text((x, y), part.text, "black", large if part.title else small, anchor=anchor)
    target = io.BytesIO()
    image.save(target, "PNG", optimize=True)
    return target.getvalue()


def height(results: Sequence[Result]) -> int:
    """Of the whole drawing, in pixels."""
    return sum(TITLE + len(results) * (BAR * len(names) + SPACE) for _, names in PANELS)


def layout(results: Sequence[Result]) -> Iterator[Bar | Words]:
    """Every bar and all words, panel below panel. The longest bar of a panel has the whole width."""
    y = 0
    for title, names in PANELS:
        yield Words(10, y + TITLE / 2, title, title=True)
        y += TITLE
        most = max(result[name] for result in results for name in names) or 1.0
        for result in results:
            yield Words(LEFT - 10, y + BAR * len(names) / 2, result["name"], to_the_left=True)
            for name, colour in zip(names, COLOURS, strict=False):
                length = max(1.0, WIDTH * result[name] / most)
                yield Bar(LEFT, y, length, colour)
                yield Words(LEFT + length + 6, y + BAR / 2, FIGURES[name].shown(result[name]))
                y += BAR
            y += SPACE


def _svg(part: Bar | Words) -> str:
    if isinstance(part, Bar):
        place = f'x="{part.x:g}" y="{part.y:g}" width="{part.length:.1f}" height="{BAR - 2}"'
        return f'<rect {place} fill="{part.colour}"/>'
    style = ' text-anchor="end"' if part.to_the_left else ' font-weight="bold"' if part.title else ""
    return f'<text x="{part.x:.1f}" y="{part.y + 4:g}"{style}>{escape(part.text)}</text>'


def _table(results: Sequence[Result]) -> str:
    rows = [
        (figure.label, *(figure.shown(result[name]) for result in results))
        for name, figure in FIGURES.items()
        if all(name in result for result in results)
    ]
    return table(("", *(result["name"] for result in results)), rows)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; its first column is words, the others are figures."""
    lines = ["".join(f"<th>{escape(cell)}</th>" for cell in columns)]
    lines += ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    return "<table>\n" + "\n".join(f"<tr>{line}</tr>" for line in lines) + "\n</table>"
