"""Text drawing: a tree with each topic below its writer."""

from __future__ import annotations

from gauss.api.draw.words import address_words, processor_words, topic_words
from gauss.stream.graph import Graph, ProcessorNode
from gauss.stream.guarantee import guarantees

LEGEND = "active: may change the number of records; passive: one output per input; stateful: keeps state across records"


def draw_text(graph: Graph) -> str:
    """The tree, a legend, and the guarantee of each sink."""
    tree = _Tree(graph)
    for processor in graph.processors.values():
        if not processor.sources:
            tree.processor(processor, "", "")
    for topic in graph.topics:  # nodes that no source reaches
        if topic not in tree.seen:
            tree.topic(topic, "", "")
    lines = tree.lines
    if graph.processors:
        lines += ["", LEGEND]
    promised = guarantees(graph)
    if promised:
        lines.append("")
        width = max(len(promise.end) for promise in promised)
        lines += [f"{promise.end:<{width}}  {promise}" for promise in promised]
    return "\n".join(lines) + "\n"


class _Tree:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.seen: set[str] = set()
        self.lines: list[str] = []

    def processor(self, processor: ProcessorNode, opening: str, indent: str) -> None:
        said = " · ".join(filter(None, [processor_words(processor), address_words(processor)]))
        self.lines.append(f"{opening}[{processor.name}]  {said}")
        for index, target in enumerate(processor.targets):
            last = index == len(processor.targets) - 1
            self.topic(target, indent + ("└─▶ " if last else "├─▶ "), indent + ("    " if last else "│   "))

    def topic(self, name: str, opening: str, indent: str) -> None:
        topic = self.graph.topics[name]
        if name in self.seen:
            self.lines.append(f"{opening}({name})  see above")
            return
        self.seen.add(name)
        self.lines.append(f"{opening}({name})  {topic_words(topic)}")
        readers = self.graph.readers(name)
        for index, (processor, read) in enumerate(readers):
            last = index == len(readers) - 1
            corner, rest = ("└─", "    ") if last else ("├─", "│   ")
            self.processor(processor, f"{indent}{corner}{read}─▶ ", indent + rest)
