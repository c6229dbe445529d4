"""`gauss check`: every fault at once, then what this machine lacks, then what each end promises."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gauss.cli import complete
from gauss.cli.output import JsonOption, Output
from gauss.config.check import Checked, check
from gauss.config.live import Mark, Phase, check_connections, check_disk, check_java, check_ports
from gauss.model.units import counted

if TYPE_CHECKING:
    from gauss.config.spec import Pipeline
    from gauss.stream.graph import Graph
    from gauss.stream.guarantee import Guarantee

_SIGNS = {Mark.OK: ("✓", "green"), Mark.WARN: ("~", "yellow"), Mark.FAIL: ("✗", "bold red")}


def command(
    file: Annotated[
        Path, typer.Argument(help="A pipeline, or a folder with a gauss.toml.", autocompletion=complete.files)
    ] = Path(),
    offline: Annotated[
        bool, typer.Option("--offline", help="Leave out transforms, Java, Spark's plans, ports, disk, connections.")
    ] = False,
    data_dir: Annotated[
        Path, typer.Option("--data-dir", help="Where a run would keep its data.", envvar="GAUSS_DATA_DIR")
    ] = Path(".gauss"),
    json: JsonOption = False,
) -> None:
    """Judge a pipeline whole, before anything starts.

    Prints every fault with its line, then a mark for each phase (✓ good, ~ warning, ✗ fault), then what each
    sink promises. Exits with 1 when there is any fault.
    """
    out = Output(json=json)
    checked = check(file)
    out.redactor = checked.redactor
    for fault in checked.faults:
        out.line(str(fault), style="yellow" if fault.warning else "red")
    phases: list[Phase] = []
    for phase in _phases(checked, data_dir, out, offline=offline):
        phases.append(phase)
        sign, style = _SIGNS[phase.mark]
        hint = f"; {phase.hint}" if phase.hint else ""
        out.line(f"{sign} {phase.name:<11} {phase.detail}{hint}", style=style)
    promises = _guarantees(checked.pipeline) if checked.pipeline else []
    width = max((len(promise.end) for promise in promises), default=0)
    for promise in promises:
        out.line(f"  {promise.end:<{width}}  {promise}")
    ok = all(phase.mark is not Mark.FAIL for phase in phases)
    out.data(
        {
            "file": str(checked.file),
            "ok": ok,
            "faults": [fault.to_dict() for fault in checked.faults],
            "phases": [phase.to_dict() for phase in phases],
            "guarantees": [promise.to_dict() for promise in promises],
        }
    )
    if not ok:
        raise typer.Exit(1)


def _phases(checked: Checked, data_dir: Path, out: Output, *, offline: bool) -> Iterator[Phase]:
    errors, warnings = len(checked.errors), len(checked.warnings)
    if checked.pipeline is None:
        yield Phase("config", Mark.FAIL, f"{counted(errors, 'fault')} in {checked.file}")
        return
    if warnings:
        yield Phase("config", Mark.WARN, f"{checked.file}: {counted(warnings, 'warning')}")
    else:
        yield Phase("config", Mark.OK, f"{checked.file}")
    from gauss.config.listeners import addresses

    graph = _graph(checked.pipeline)
    place = "with Spark" if graph.needs_spark else "without Spark"
    told = f"{counted(len(graph.topics), 'topic')}, {counted(len(graph.processors), 'processor')}, {place}"
    yield Phase("graph", Mark.OK, told)
    yield from _tables(checked, checked.pipeline, data_dir, offline=offline)
    yield from _unused_maps(checked, checked.pipeline)
    if offline:
        return
    if graph.needs_spark and not checked.pipeline.spark.master.startswith("local"):
        from gauss.stream.driver.teams import least_slots

        slots, master = least_slots(checked.pipeline), checked.pipeline.spark.master
        yield Phase("slots", Mark.OK, f"standing tasks hold {counted(slots, 'slot')} of {master}, more while they lag")
    if graph.needs_spark or _converts(checked.pipeline):
        yield from _transforms(checked, checked.pipeline, data_dir)
    if graph.needs_spark:
        java = check_java()
        yield java
        if java.mark is not Mark.FAIL:
            yield from _plans(checked, checked.pipeline, data_dir, out)
    found = addresses(checked.pipeline)
    yield from check_ports(found)
    yield check_disk(data_dir, checked.pipeline.engine.min_free_bytes)
    yield from check_connections(found)


def _tables(checked: Checked, pipeline: Pipeline, data_dir: Path, *, offline: bool) -> Iterator[Phase]:
    """Every table that is decoded into: its schema map is run, its statement made. A server is asked only for columns
    that nobody else knows."""
    from gauss import registry
    from gauss.contracts.storage import StorageSpec
    from gauss.contracts.table import TableSpec

    storages = {topic.name: registry.spec(StorageSpec, topic.storage) for topic in pipeline.topics}
    wanted = [topic for topic in pipeline.topics if isinstance(storages[topic.name], TableSpec)]
    for topic in (topic for topic in wanted if topic.storage_config.get("format")):
        from gauss.config.files import with_absolute_files
        from gauss.model.errors import ConfigError, GaussError
        from gauss.model.paths import DataDir
        from gauss.stream.live_formats import asks_server, with_live_formats
        from gauss.stream.tables import table_topic

        if offline and asks_server(pipeline, topic.storage_config["format"]):
            yield Phase("tables", Mark.OK, f"{topic.name}: its columns are asked of a server")
            continue
        paths = DataDir(data_dir.absolute())
        absolute = with_live_formats(with_absolute_files(pipeline, checked.base_dir), paths, keep=False)
        try:
            found = table_topic(absolute, topic.name, checked.base_dir, paths)
            found.columns()
            found.store.statement(found.target)
        except ConfigError as error:
            yield Phase("tables", Mark.FAIL, f"{topic.name}: {error.message}", error.hint)
        except GaussError as error:  # a format that asks a server for its schema
            yield Phase("tables", Mark.WARN, f"{topic.name}: {error.message}", "its columns can't be told now")
        else:
            yield Phase("tables", Mark.OK, f"{topic.name}: {counted(len(found.mapped.fields), 'column')}")


def _unused_maps(checked: Checked, pipeline: Pipeline) -> Iterator[Phase]:
    """Schema maps that no topic names are judged by themselves; the others with their tables."""
    used = {topic.storage_config.get("schema_map") for topic in pipeline.topics}
    for each in (each for each in pipeline.schema_maps if each.name not in used):
        from gauss.mapping.script import check_file
        from gauss.model.errors import ConfigError

        try:
            check_file(checked.base_dir / each.script)
        except ConfigError as error:
            yield Phase("schema_maps", Mark.FAIL, f"{each.name}: {error.message}", error.hint)


def _converts(pipeline: Pipeline) -> bool:
    """Whether some sink writes another format than its topic's."""
    from gauss.model.errors import ConfigError
    from gauss.stream.formats import sink_formats

    try:
        return any(sink_formats(pipeline, processor.name) is not None for processor in pipeline.processors)
    except ConfigError:  # told where each processor is judged
        return True


def _transforms(checked: Checked, pipeline: Pipeline, data_dir: Path) -> Iterator[Phase]:
    """Every transform is put together with its formats, as the driver does: that needs Arrow, and so time."""
    from gauss.config.files import with_absolute_files
    from gauss.contracts.processor import ProcessorSpec
    from gauss.model.errors import ConfigError
    from gauss.model.paths import DataDir
    from gauss.registry import spec
    from gauss.stream.driver.fitting import misfits
    from gauss.stream.driver.state_check import lost_state
    from gauss.stream.live_formats import with_live_formats

    paths = DataDir(data_dir.absolute())
    absolute = with_live_formats(with_absolute_files(pipeline, checked.base_dir), paths, keep=False)
    found = list(misfits(absolute, _graph(absolute)))
    for name, error in found:
        if isinstance(error, ConfigError):
            yield Phase("transforms", Mark.FAIL, f"{name}: {error.message}", error.hint)
        else:  # a format that asks a server for its schema
            yield Phase("transforms", Mark.WARN, f"{name}: {error.message}", "its fields can't be told now")
    if not found:
        yield Phase("transforms", Mark.OK, "each fits its formats")
    for entry in absolute.processors:
        if spec(ProcessorSpec, entry.plugin).stateful and (lost := lost_state(absolute, entry, paths)) is not None:
            yield Phase("state", Mark.WARN, f"{entry.name}: {lost.message}", lost.hint)


def _plans(checked: Checked, pipeline: Pipeline, data_dir: Path, out: Output) -> Iterator[Phase]:
    """SQL and functions of a DataFrame are planned by Spark itself, which takes the seconds of its start."""
    from gauss.stream.driver.dry_run import unjudged, verdicts
    from gauss.stream.driver.state_check import lost_state

    graph = _graph(pipeline)
    if not (entries := unjudged(pipeline, graph)):
        return
    from gauss.config.files import with_absolute_files
    from gauss.model.errors import ConfigError
    from gauss.model.paths import DataDir
    from gauss.stream.live_formats import with_live_formats

    paths = DataDir(data_dir.absolute())
    absolute = with_live_formats(with_absolute_files(pipeline, checked.base_dir), paths, keep=False)
    named = {entry.name: entry for entry in absolute.processors if entry.name in {each.name for each in entries}}
    out.note("starting Spark to plan SQL and functions; --offline leaves this out")
    found = list(verdicts(absolute, list(named.values()), paths))
    for verdict in found:
        if verdict.refusal is not None:
            mark = Mark.FAIL if isinstance(verdict.refusal, ConfigError) else Mark.WARN
            yield Phase("plans", mark, f"{verdict.processor}: {verdict.refusal.message}", verdict.refusal.hint)
        else:
            state = "it keeps state" if verdict.state else "it keeps no state"
            yield Phase("plans", Mark.OK, f"{verdict.processor}: Spark can run it; {state}")
            lost = lost_state(absolute, named[verdict.processor], paths, verdict.state)
            if lost is not None:
                yield Phase("state", Mark.WARN, f"{verdict.processor}: {lost.message}", lost.hint)


def _graph(pipeline: Pipeline) -> Graph:
    from gauss.stream.graph import build_graph

    return build_graph(pipeline)


def _guarantees(pipeline: Pipeline) -> list[Guarantee]:
    from gauss.stream.guarantee import guarantees

    return guarantees(_graph(pipeline))
