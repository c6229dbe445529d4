"""`gauss explain`: explains how each processor runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gauss.cli import complete
from gauss.cli.arguments import file_and_name
from gauss.cli.client import DEFAULT_DATA_DIR, DataDirOption
from gauss.cli.output import CommandOutput, JsonOption
from gauss.config.check import check_or_raise
from gauss.model.errors import NotFound
from gauss.model.units import counted


def command(
    file: Annotated[
        Path, typer.Argument(help="A pipeline, or a folder with a gauss.toml.", autocompletion=complete.files)
    ] = Path(),
    processor: Annotated[
        str,
        typer.Argument(help="A processor or sync of the pipeline. Default: all.", autocompletion=complete.processors),
    ] = "",
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Explain how processors run: in which task or query, what is decoded where, what is published together, and why
    a chain ends where it does. Syncs: in this process or on Spark, and why; their source is asked how many rows it has.
    Nothing is started."""
    from gauss.cli.databases import with_known_databases
    from gauss.config.files import with_absolute_files
    from gauss.connect.explain import explain_sync
    from gauss.stream.driver.planning.chains import find_chains
    from gauss.stream.driver.planning.explain import STANDING, explain, slots_words
    from gauss.stream.graph import build_graph

    out = CommandOutput(json=json)
    file, processor = file_and_name(file, processor)
    pipeline, checked = check_or_raise(file)
    out.redactor = checked.redactor
    pipeline = with_known_databases(with_absolute_files(pipeline, checked.base_dir), checked, data_dir)
    graph = build_graph(pipeline)
    syncs = [each for each in pipeline.syncs if processor in ("", each.name)]
    if processor and processor not in graph.processors and not syncs:
        known = ", ".join([*graph.processors, *(each.name for each in pipeline.syncs)])
        raise NotFound(f'no processor "{processor}"', hint=f"processors of this pipeline: {known}")
    chains = find_chains(pipeline, graph)
    names = [name for name in graph.processors if processor in ("", name)]
    found = [explain(pipeline, graph, chains, name) for name in names]
    queries = sorted({each.query for each in found if each.query})
    explained = [explain_sync(each, checked.base_dir, pipeline.spark) for each in syncs]
    out.data(
        {
            "queries": queries,
            "processors": [each.to_dict() for each in found],
            "syncs": [each.to_dict() for each in explained],
        }
    )
    for each in found:
        out.line(f"{each.processor}  ({each.plugin})", style="bold")
        for word, text in each.lines():
            out.line(f"  {word:<12}{text}")
        out.line()
    for sync in explained:
        out.line(f"{sync.name}  (sync)", style="bold")
        for word, text in sync.lines():
            out.line(f"  {word:<12}{text}")
        out.line()
    if not processor and graph.processors:
        spark = [each for each in found if each.query]
        tasks = {each.query for each in spark if each.runs in STANDING}
        out.line(
            f"{counted(len(spark), 'processor')} on Spark in {counted(len(tasks), 'standing task')} and"
            f" {counted(len(queries) - len(tasks), 'query', 'queries')}; {slots_words(pipeline)}"
        )
