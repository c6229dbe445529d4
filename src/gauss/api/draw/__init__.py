"""Draws the graph of a pipeline as text, mermaid or SVG."""

from __future__ import annotations

from gauss.api.draw.mermaid import draw_mermaid
from gauss.api.draw.svg import draw_svg
from gauss.api.draw.text import draw_text

DRAWINGS = {"text": draw_text, "mermaid": draw_mermaid, "svg": draw_svg}
"""Drawing functions by format."""

__all__ = ["DRAWINGS", "draw_mermaid", "draw_svg", "draw_text"]
