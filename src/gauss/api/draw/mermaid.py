"""Mermaid flowchart: topics are cylinders, processors are boxes, coloured by where they run."""

from __future__ import annotations

from gauss.api.draw.words import address_words, processor_words, topic_words
from gauss.contracts.processor import Where
from gauss.stream.graph import Graph


def draw_mermaid(graph: Graph) -> str:
    """The source of the chart. Nodes are numbered, because names may contain mermaid syntax."""
    topics = {name: f"t{index}" for index, name in enumerate(graph.topics)}
    processors = {name: f"p{index}" for index, name in enumerate(graph.processors)}
    lines = ["flowchart LR"]
    for name, topic in graph.topics.items():
        lines.append(f'    {topics[name]}[("<b>{_plain(name)}</b><br>{topic_words(topic)}")]:::topic')
    for name, processor in graph.processors.items():
        said = "<br>".join(filter(None, [processor_words(processor), address_words(processor)]))
        style = "spark" if processor.where is Where.SPARK else "engine"
        lines.append(f'    {processors[name]}["<b>{_plain(name)}</b><br>{_plain(said)}"]:::{style}')
    for name, processor in graph.processors.items():
        lines += [
            f"    {topics[reading.topic]} -- {reading.read} --> {processors[name]}" for reading in processor.sources
        ]
        lines += [f"    {processors[name]} --> {topics[target]}" for target in processor.targets]
    lines += [
        "    classDef topic fill:#eef4fb,stroke:#3b6ea5,color:#15314d",
        "    classDef engine fill:#f3f7ee,stroke:#5f8a3a,color:#2a3f19",
        "    classDef spark fill:#fdf1e7,stroke:#c96a1f,color:#5a2d0a",
    ]
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    return text.replace('"', "#quot;").replace("<br>", "\0").replace("<", "#lt;").replace("\0", "<br>")
