"""`gauss check`: reports all config errors, missing requirements of this machine, and the guarantee of each sink."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gauss.cli import complete
from gauss.cli.output import CommandOutput, JsonOption
from gauss.config.check import Checked, check
from gauss.config.live import CheckMark, Phase, check_connections, check_disk, check_java, check_ports, check_topics
from gauss.model.units import counted

if TYPE_CHECKING:
    from gauss.config.spec import Pipeline
    from gauss.stream.graph import Graph, ProcessorNode
    from gauss.stream.guarantee import Guarantee

_SIGNS = {CheckMark.OK: ("✓", "green"), CheckMark.WARN: ("~", "yellow"), CheckMark.FAIL: ("✗", "bold red")}


def command(
    file: Annotated[
        Path, typer.Argument(help="A pipeline, or a folder with a gauss.toml.", autocompletion=complete.files)
    ] = Path(),
    offline: Annotated[
        bool,
        typer.Option(
            "--offline",
            help="Skip the checks of transforms, Java, Spark plans, ports, disk, connections, brokers and connectors.",
        ),
    ] = False,
    data_dir: Annotated[
        Path, typer.Option("--data-dir", help="The data directory of the run.", envvar="GAUSS_DATA_DIR")
    ] = Path(".gauss"),
    json: JsonOption = False,
) -> None:
    """Check a pipeline without starting it.

    Prints every error with its line, then the result of each phase (✓ passed, ~ warning, ✗ error), then the delivery
    guarantee of each sink. Exits with 1 if there is an error.
    """
    out = CommandOutput(json=json)
    checked = check(file)
    out.redactor = checked.redactor
    for fault in checked.faults:
        out.line(str(fault), style="yellow" if fault.warning else "red")
    phases: list[Phase] = []
    if checked.pipeline is not None and checked.pipeline.databases and not offline:
        from gauss.cli.databases import with_known_databases

        checked = replace(checked, pipeline=with_known_databases(checked.pipeline, checked, data_dir))
    for phase in _phases(checked, data_dir, out, offline=offline):
        phases.append(phase)
        sign, style = _SIGNS[phase.mark]
        hint = f"; {phase.hint}" if phase.hint else ""
        out.line(f"{sign} {phase.name:<11} {phase.detail}{hint}", style=style)
    promises = _guarantees(checked.pipeline) if checked.pipeline else []
    width = max((len(promise.end) for promise in promises), default=0)
    for promise in promises:
        out.line(f"  {promise.end:<{width}}  {promise}")
    ok = all(phase.mark is not CheckMark.FAIL for phase in phases)
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


def _phases(checked: Checked, data_dir: Path, out: CommandOutput, *, offline: bool) -> Iterator[Phase]:
    errors, warnings = len(checked.errors), len(checked.warnings)
    if checked.pipeline is None:
        yield Phase("config", CheckMark.FAIL, f"{counted(errors, 'error')} in {checked.file}")
        return
    if warnings:
        yield Phase("config", CheckMark.WARN, f"{checked.file}: {counted(warnings, 'warning')}")
    else:
        yield Phase("config", CheckMark.OK, f"{checked.file}")
    from gauss.config.listeners import addresses

    graph = _graph(checked.pipeline)
    on_spark = graph.needs_spark or any(sync.wants_spark for sync in checked.pipeline.syncs)
    place = "with Spark" if on_spark else "without Spark"
    parts = [counted(len(graph.topics), "topic"), counted(len(graph.processors), "processor")]
    parts += [counted(len(checked.pipeline.syncs), "sync")] if checked.pipeline.syncs else []
    yield Phase("graph", CheckMark.OK, ", ".join([*parts, place]))
    yield from _tables(checked, checked.pipeline, data_dir, offline=offline)
    yield from _unused_maps(checked, checked.pipeline)
    if offline:
        return
    if graph.needs_spark and not checked.pipeline.spark.master.startswith("local"):
        from gauss.stream.driver.planning.shared_reads import least_slots

        slots, master = least_slots(checked.pipeline), checked.pipeline.spark.master
        yield Phase(
            "slots", CheckMark.OK, f"standing tasks use {counted(slots, 'slot')} of {master}, more while they lag"
        )
    if graph.needs_spark or _converts(checked.pipeline):
        yield from _transforms(checked, checked.pipeline, data_dir)
    if on_spark:
        java = check_java()
        yield java
        if graph.needs_spark and java.mark is not CheckMark.FAIL:
            yield from _plans(checked, checked.pipeline, data_dir, out)
    found = addresses(checked.pipeline)
    yield from check_ports(found)
    yield check_disk(data_dir, checked.pipeline.engine.min_free_bytes)
    yield from check_connections(found)
    yield from check_topics(checked, checked.pipeline, _written_on_spark(graph))
    yield from _syncs(checked, checked.pipeline, data_dir)


def _tables(checked: Checked, pipeline: Pipeline, data_dir: Path, *, offline: bool) -> Iterator[Phase]:
    """Runs the schema map of every table and generates its DDL. A server is asked only for columns that are defined
    nowhere else."""
    from gauss.contracts.storage import TopicKind

    wanted = [topic for topic in pipeline.topics if topic.kind is TopicKind.STORED_TABLE]
    for topic in (topic for topic in wanted if topic.storage_config.get("format")):
        from gauss.config.files import with_absolute_files
        from gauss.model.errors import ConfigError, GaussError
        from gauss.model.paths import DataDir
        from gauss.stream.live_formats import asks_server, with_live_formats
        from gauss.stream.tables import table_topic

        if offline and asks_server(pipeline, topic.storage_config["format"]):
            yield Phase("tables", CheckMark.OK, f"{topic.name}: its columns come from a server")
            continue
        paths = DataDir(data_dir.absolute())
        absolute = with_live_formats(with_absolute_files(pipeline, checked.base_dir), paths, keep=False)
        try:
            found = table_topic(absolute, topic.name, checked.base_dir, paths)
            found.columns()
            found.store.statement(found.target)
        except ConfigError as error:
            yield Phase("tables", CheckMark.FAIL, f"{topic.name}: {error.message}", error.hint)
        except GaussError as error:  # a format that asks a server for its schema
            yield Phase("tables", CheckMark.WARN, f"{topic.name}: {error.message}", "its columns are not known yet")
        else:
            yield Phase("tables", CheckMark.OK, f"{topic.name}: {counted(len(found.mapped.fields), 'column')}")


def _syncs(checked: Checked, pipeline: Pipeline, data_dir: Path) -> Iterator[Phase]:
    """Lets both connectors of every sync check their settings. One that can't be reached may be there later."""
    for sync in pipeline.syncs:
        from gauss.connect.side_check import check_sides

        for side in check_sides(sync, checked.base_dir, data_dir.absolute()):
            who = f'sync "{sync.name}": {side.role} {side.connector}'
            match side.status:
                case "unreachable":
                    hint = "the sync fails while it can't"
                    yield Phase("connectors", CheckMark.WARN, f"{who} can't be reached now: {side.message}", hint)
                case "failed":
                    yield Phase("connectors", CheckMark.FAIL, f"{who}: {side.message}", side.hint)
                case "warning":
                    yield Phase("connectors", CheckMark.WARN, f"{who}: {side.message}", side.hint)
                case _:
                    said = f": {side.message}" if side.message else " is accepted"
                    yield Phase("connectors", CheckMark.OK, f"{who}{said}")


def _unused_maps(checked: Checked, pipeline: Pipeline) -> Iterator[Phase]:
    """Checks the schema maps that no topic uses; the others are checked with their tables."""
    used = {topic.storage_config.get("schema_map") for topic in pipeline.topics}
    for each in (each for each in pipeline.schema_maps if each.name not in used):
        from gauss.mapping.script import check_file
        from gauss.model.errors import ConfigError

        try:
            check_file(checked.base_dir / each.script)
        except ConfigError as error:
            yield Phase("schema_maps", CheckMark.FAIL, f"{each.name}: {error.message}", error.hint)


def _converts(pipeline: Pipeline) -> bool:
    """Whether a sink converts records to another format."""
    from gauss.model.errors import ConfigError
    from gauss.stream.formats import sink_formats

    try:
        return any(sink_formats(pipeline, processor.name) is not None for processor in pipeline.processors)
    except ConfigError:  # reported with the processor itself
        return True


def _transforms(checked: Checked, pipeline: Pipeline, data_dir: Path) -> Iterator[Phase]:
    """Builds every transform with its formats, as the driver does. Slow: it imports Arrow."""
    from gauss.config.files import with_absolute_files
    from gauss.contracts.processor import ProcessorSpec
    from gauss.model.errors import ConfigError
    from gauss.model.paths import DataDir
    from gauss.registry import spec
    from gauss.stream.driver.planning.format_fit import misfits
    from gauss.stream.driver.planning.state_check import lost_state
    from gauss.stream.live_formats import with_live_formats

    paths = DataDir(data_dir.absolute())
    absolute = with_live_formats(with_absolute_files(pipeline, checked.base_dir), paths, keep=False)
    found = list(misfits(absolute, _graph(absolute)))
    for name, error in found:
        if isinstance(error, ConfigError):
            yield Phase("transforms", CheckMark.FAIL, f"{name}: {error.message}", error.hint)
        else:  # a format that asks a server for its schema
            yield Phase("transforms", CheckMark.WARN, f"{name}: {error.message}", "its fields are not known yet")
    if not found:
        yield Phase("transforms", CheckMark.OK, "all match their formats")
    for entry in absolute.processors:
        if spec(ProcessorSpec, entry.plugin).stateful and (lost := lost_state(absolute, entry, paths)) is not None:
            yield Phase("state", CheckMark.WARN, f"{entry.name}: {lost.message}", lost.hint)


def _plans(checked: Checked, pipeline: Pipeline, data_dir: Path, out: CommandOutput) -> Iterator[Phase]:
    """Lets Spark plan SQL and DataFrame functions, which takes the seconds of its start."""
    from gauss.stream.driver.planning.state_check import lost_state
    from gauss.stream.driver.queries.dry_run import needing_spark, verdicts

    graph = _graph(pipeline)
    if not (entries := needing_spark(pipeline, graph)):
        return
    from gauss.config.files import with_absolute_files
    from gauss.model.errors import ConfigError
    from gauss.model.paths import DataDir
    from gauss.stream.live_formats import with_live_formats

    paths = DataDir(data_dir.absolute())
    absolute = with_live_formats(with_absolute_files(pipeline, checked.base_dir), paths, keep=False)
    named = {entry.name: entry for entry in absolute.processors if entry.name in {each.name for each in entries}}
    out.note("starting Spark to plan SQL and functions; skip this with --offline")
    found = list(verdicts(absolute, list(named.values()), paths))
    for verdict in found:
        if verdict.refusal is not None:
            mark = CheckMark.FAIL if isinstance(verdict.refusal, ConfigError) else CheckMark.WARN
            yield Phase("plans", mark, f"{verdict.processor}: {verdict.refusal.message}", verdict.refusal.hint)
        else:
            state = "it keeps state" if verdict.state else "it keeps no state"
            yield Phase("plans", CheckMark.OK, f"{verdict.processor}: Spark can run it; {state}")
            lost = lost_state(absolute, named[verdict.processor], paths, verdict.state)
            if lost is not None:
                yield Phase("state", CheckMark.WARN, f"{verdict.processor}: {lost.message}", lost.hint)


def _written_on_spark(graph: Graph) -> set[str]:
    """The topics to which Spark's tasks write in transactions, and sources that pull."""
    from gauss import registry
    from gauss.contracts.outside import PullSpec
    from gauss.contracts.processor import ProcessorSpec, Role

    def writes(node: ProcessorNode) -> bool:
        pulls = isinstance(registry.spec(ProcessorSpec, node.plugin), PullSpec) if node.role is Role.SOURCE else False
        return pulls or node.role is Role.TRANSFORM

    return {name for each in graph.processors.values() if writes(each) for name in each.targets}


def _graph(pipeline: Pipeline) -> Graph:
    from gauss.stream.graph import build_graph

    return build_graph(pipeline)


def _guarantees(pipeline: Pipeline) -> list[Guarantee]:
    from gauss.stream.guarantee import guarantees

    return guarantees(_graph(pipeline))
