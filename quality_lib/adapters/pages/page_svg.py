"""A matplotlib drawing as part of an HTML page that has a light and a dark scheme. Pure."""

from __future__ import annotations

import re

# Matplotlib knows no CSS variables: these colours stand for them and are replaced at the end.
_VARIABLES = {
    "#0a0b01": "ink",
    "#0a0b02": "muted",
    "#0a0b03": "line",
    "#0a0b04": "surface",
    "#0a0b05": "healthy",
    "#0a0b06": "degraded",
    "#0a0b07": "failed",
    "#0a0b08": "inconclusive",
    "#0a0b09": "accent",
}
COLOUR = {name: colour for colour, name in _VARIABLES.items()}


def page_svg(svg: str, name: str, text: str) -> str:
    """Turn matplotlib's SVG file into an element of the page: described, coloured, without own sizes.

    ``name`` becomes its class and the prefix of its ids; ``text`` must need no escaping.
    """
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<style type="text/css">.*?</style>', "", svg, flags=re.DOTALL)
    svg = re.sub(r"\s*<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\b(id="|href="#|url\(#)', rf"\1{name}-", svg)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var(--{variable})")
    head = re.search(r'viewBox="[^"]*"', svg)
    if head is None:
        raise ValueError("matplotlib wrote an SVG file without a viewBox")
    label = f"{name}-title {name}-text"
    opening = (
        f'<svg class="{name}" xmlns:xlink="http://www.w3.org/1999/xlink" {head[0]} role="img" '
        f'aria-labelledby="{label}"><title id="{name}-title">Trend over the last runs</title>'
        f'<desc id="{name}-text">{text}</desc>'
    )
    return re.sub(r"<svg[^>]*>", lambda _: opening, svg, count=1)
