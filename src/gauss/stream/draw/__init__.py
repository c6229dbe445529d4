"""A pipeline's graph as a picture: text for a terminal, mermaid for a page, SVG for anything else."""

from __future__ import annotations

from gauss.stream.draw.mermaid import draw_mermaid
from gauss.stream.draw.svg import draw_svg
from gauss.stream.draw.text import draw_text

DRAWINGS = {"text": draw_text, "mermaid": draw_mermaid, "svg": draw_svg}
"""Format → function of a graph."""

__all__ = ["DRAWINGS", "draw_mermaid", "draw_svg", "draw_text"]
