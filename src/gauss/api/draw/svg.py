"""Self-contained SVG: processors are boxes, topics are cylinders, arrows go from left to right."""

from __future__ import annotations

from xml.sax.saxutils import escape

from gauss.api.draw.layout import Arrow, Node, columns, edges
from gauss.api.draw.words import address_words, processor_words, topic_words
from gauss.contracts.processor import Where
from gauss.stream.graph import Graph
from gauss.stream.guarantee import guarantees

_MARGIN, _GAP_X, _GAP_Y, _HEIGHT, _LINE = 24, 84, 26, 78, 16
_NAME_PX, _WORD_PX = 8.6, 6.1  # upper bounds of character widths, so that text fits its box with any font

_STYLE = """
text { font-family: ui-sans-serif, system-ui, "Segoe UI", Helvetica, Arial, sans-serif; font-size: 11px; fill: #4a5563 }
.name { font-size: 14px; font-weight: 600; fill: #17202b }
.topic { fill: #eef4fb; stroke: #3b6ea5 } .engine { fill: #f3f7ee; stroke: #5f8a3a }
.spark { fill: #fdf1e7; stroke: #c96a1f } .stateful { stroke-width: 2.5 }
.arrow { fill: none; stroke: #8a94a3; stroke-width: 1.4 } .head { fill: #8a94a3 }
.label { fill: #3b6ea5; paint-order: stroke; stroke: #fff; stroke-width: 4px }
"""


class _Box:
    """A placed node."""

    def __init__(self, x: float, y: float, width: float) -> None:
        self.x, self.y, self.width = x, y, width

    @property
    def middle(self) -> float:
        return self.y + _HEIGHT / 2


def draw_svg(graph: Graph) -> str:
    """The drawing, with the guarantee of each sink below it."""
    words = _words(graph)
    placed = columns(graph)
    boxes, width, height = _place(placed, words)
    promised = [f"{promise.end}: {promise}" for promise in guarantees(graph)]
    width = max(width, *(len(line) * _WORD_PX + 2 * _MARGIN for line in promised), 320)
    below = height
    height += len(promised) * _LINE + (_MARGIN if promised else 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}"'
        f' width="{width:.0f}" height="{height:.0f}" role="img">',
        f"<style>{_STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="head" d="M0,0 L8,4 L0,8 z"/></marker></defs>',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    arrows = edges(graph)
    parts += [_arrow(arrow, boxes) for arrow in arrows]
    parts += [_node(node, boxes[node], words[node], graph) for column in placed for node in column]
    parts += [_label(arrow, boxes) for arrow in arrows if arrow.label]
    parts += [
        f'<text x="{_MARGIN}" y="{below + index * _LINE + 8:.0f}">{escape(line)}</text>'
        for index, line in enumerate(promised)
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _words(graph: Graph) -> dict[Node, list[str]]:
    """The lines of each node, its name first."""
    found = {Node("topic", name): [name, *topic_words(node).split(" · ", 1)] for name, node in graph.topics.items()}
    for name, node in graph.processors.items():
        plugin, rest = processor_words(node).split(" · ", 1)
        found[Node("processor", name)] = [name, " · ".join(filter(None, [plugin, address_words(node)])), rest]
    return found


def _place(placed: list[list[Node]], words: dict[Node, list[str]]) -> tuple[dict[Node, _Box], float, float]:
    tallest = max((len(column) for column in placed), default=0)
    inner = tallest * _HEIGHT + max(tallest - 1, 0) * _GAP_Y
    boxes: dict[Node, _Box] = {}
    x: float = _MARGIN
    for column in placed:
        width = max(
            max(len(words[node][0]) * _NAME_PX, *(len(line) * _WORD_PX for line in words[node][1:])) + 28
            for node in column
        )
        y = _MARGIN + (inner - len(column) * _HEIGHT - (len(column) - 1) * _GAP_Y) / 2
        for node in column:
            boxes[node] = _Box(x, y, width)
            y += _HEIGHT + _GAP_Y
        x += width + _GAP_X
    return boxes, (x - _GAP_X if placed else x) + _MARGIN, inner + 2 * _MARGIN


def _node(node: Node, box: _Box, lines: list[str], graph: Graph) -> str:
    if node.kind == "topic":
        shape = _cylinder(box)
    else:
        processor = graph.processors[node.name]
        style = "spark" if processor.where is Where.SPARK else "engine"
        style += " stateful" if processor.stateful else ""
        shape = (
            f'<rect class="{style}" x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{_HEIGHT}" rx="8"/>'
        )
    lid = 5 if node.kind == "topic" else 0  # a cylinder's text stands below its lid
    first = box.y + _HEIGHT / 2 - (len(lines) - 1) * _LINE / 2 + 5 + lid
    texts = [
        f'<text{" class=" + chr(34) + "name" + chr(34) if index == 0 else ""} x="{box.x + box.width / 2:.1f}"'
        f' y="{first + index * _LINE:.1f}" text-anchor="middle">{escape(line)}</text>'
        for index, line in enumerate(lines)
    ]
    return shape + "".join(texts)


def _cylinder(box: _Box) -> str:
    left, right, top, bottom, bend = box.x, box.x + box.width, box.y + 7, box.y + _HEIGHT - 7, 7
    half = box.width / 2
    return (
        f'<path class="topic" d="M{left:.1f},{top} A{half:.1f},{bend} 0 0 1 {right:.1f},{top}'
        f' L{right:.1f},{bottom} A{half:.1f},{bend} 0 0 1 {left:.1f},{bottom} z"/>'
        f'<path class="topic" style="fill:none" d="M{left:.1f},{top} A{half:.1f},{bend} 0 0 0 {right:.1f},{top}"/>'
    )


def _ends(arrow: Arrow, boxes: dict[Node, _Box]) -> tuple[float, float, float, float]:
    source, target = boxes[arrow.source], boxes[arrow.target]
    return source.x + source.width, source.middle, target.x, target.middle


def _arrow(arrow: Arrow, boxes: dict[Node, _Box]) -> str:
    x1, y1, x2, y2 = _ends(arrow, boxes)
    if x2 > x1:
        bend = max((x2 - x1) / 2, 24)
        curve = f"M{x1:.1f},{y1:.1f} C{x1 + bend:.1f},{y1:.1f} {x2 - bend:.1f},{y2:.1f} {x2 - 2:.1f},{y2:.1f}"
    else:  # back to the left: below the boxes
        low = max(y1, y2) + _HEIGHT / 2 + 14
        curve = f"M{x1:.1f},{y1:.1f} C{x1 + 60:.1f},{low:.1f} {x2 - 60:.1f},{low:.1f} {x2 - 2:.1f},{y2:.1f}"
    return f'<path class="arrow" d="{curve}" marker-end="url(#head)"/>'


def _label(arrow: Arrow, boxes: dict[Node, _Box]) -> str:
    x1, y1, x2, y2 = _ends(arrow, boxes)
    return (
        f'<text class="label" x="{(x1 + x2) / 2:.1f}" y="{(y1 + y2) / 2 - 5:.1f}"'
        f' text-anchor="middle">{escape(arrow.label)}</text>'
    )
