"""`gauss explain`: how a processor runs, in words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gauss.cli import complete
from gauss.cli.arguments import file_and_name
from gauss.cli.output import JsonOption, Output
from gauss.config.check import check_or_raise
from gauss.model.errors import NotFound
from gauss.model.units import counted


def command(
    file: Annotated[
        Path, typer.Argument(help="A pipeline, or a folder with a gauss.toml.", autocompletion=complete.files)
    ] = Path(),
    processor: Annotated[
        str, typer.Argument(help="One of its processors; left out: all.", autocompletion=complete.processors)
    ] = "",
    json: JsonOption = False,
) -> None:
    """Say in words how processors run: which task or query, what is decoded where, what is published together, and why
    one ends where it does. From the config alone: nothing is started."""
    from gauss.config.files import with_absolute_files
    from gauss.stream.driver.chains import find_chains
    from gauss.stream.driver.explain import STANDING, explain, slots_words
    from gauss.stream.graph import build_graph

    out = Output(json=json)
    file, processor = file_and_name(file, processor)
    pipeline, checked = check_or_raise(file)
    out.redactor = checked.redactor
    pipeline = with_absolute_files(pipeline, checked.base_dir)
    graph = build_graph(pipeline)
    if processor and processor not in graph.processors:
        raise NotFound(f'no processor "{processor}"', hint=f"in this config: {', '.join(graph.processors)}")
    chains = find_chains(pipeline, graph)
    names = [processor] if processor else list(graph.processors)
    found = [explain(pipeline, graph, chains, name) for name in names]
    queries = sorted({each.query for each in found if each.query})
    out.data({"queries": queries, "processors": [each.to_dict() for each in found]})
    for each in found:
        out.line(f"{each.processor}  ({each.plugin})", style="bold")
        for word, text in each.lines():
            out.line(f"  {word:<12}{text}")
        out.line()
    if not processor:
        spark = [each for each in found if each.query]
        tasks = {each.query for each in spark if each.runs in STANDING}
        out.line(
            f"{counted(len(spark), 'processor')} on Spark in {counted(len(tasks), 'standing task')} and"
            f" {counted(len(queries) - len(tasks), 'query', 'queries')}; {slots_words(pipeline)}"
        )
