"""`gauss schema`: shows how the fields of a format map to the columns of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauss.cli import complete
from gauss.cli.arguments import file_and_name
from gauss.cli.client import DEFAULT_DATA_DIR, DataDirOption
from gauss.cli.output import CommandOutput, JsonOption
from gauss.config.check import check_or_raise
from gauss.model.errors import ConfigError
from gauss.model.paths import DataDir
from gauss.tables.description import columns, live_differences, type_words

if TYPE_CHECKING:
    from gauss.config.spec import Pipeline
    from gauss.tables.mapped_table import MappedTable


def command(
    file: Annotated[
        Path, typer.Argument(help="A pipeline, or a folder with a gauss.toml.", autocompletion=complete.files)
    ] = Path(),
    topic: Annotated[
        str,
        typer.Argument(help="A topic whose storage is a table. Default: the only one.", autocompletion=complete.topics),
    ] = "",
    explain: Annotated[bool, typer.Option("--explain", help="Also show how each value is converted.")] = False,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Show a table topic's source fields, its columns and its DDL, and how the live table differs.

    Changes nothing. The live table is compared if its server can be reached; the embedded server and prepared databases
    run only while their pipeline does.

    Examples: gauss schema pipeline.toml quotes.ch · gauss schema quotes.ch --explain
    """
    from gauss.cli.databases import with_known_databases
    from gauss.config.files import with_absolute_files
    from gauss.stream.live_formats import with_live_formats
    from gauss.stream.tables import table_topic

    output = CommandOutput(json=json)
    file, topic = file_and_name(file, topic)
    pipeline, checked = check_or_raise(file)
    topic = topic or _only_table(pipeline)
    output.redactor = checked.redactor
    pipeline = with_known_databases(with_absolute_files(pipeline, checked.base_dir), checked, data_dir)
    paths = DataDir(data_dir.absolute())
    found = table_topic(with_live_formats(pipeline, paths, keep=False), topic, checked.base_dir, paths)
    rows = columns(found)
    statement = found.store.statement(found.target)
    live = live_differences(found)
    source = _as_source(found)
    output.data({"topic": topic, "columns": rows, "statement": statement, "source": source, **live})
    shown = ["field", "type", "column", *(["converted"] if explain else [])]
    cells = [
        [row["field"] or "–", row["type"] or "–", row["column"], *([row["converted"] or "–"] if explain else [])]
        for row in rows
    ]
    output.table(shown, cells)
    unused = sorted({field.name for field in found.source.fields} - {row["field"] for row in rows})
    if unused:
        output.line(f"not mapped: {', '.join(unused)}", style="dim")
    output.line(f"\n{statement}\n")
    output.line(f"read as a source: {_source_words(source)}")
    if explain:
        output.table(["column", "as a source"], [[each["name"], each["type"]] for each in source["fields"]])
    for line in live["differences"] or []:
        output.line(f"{line['change']}\n    {line['statement']}", style="yellow")
    output.line(str(live["verdict"]))


def _only_table(pipeline: Pipeline) -> str:
    from gauss.stream.tables import table_names

    names = table_names(pipeline)
    if len(names) == 1:
        return names[0]
    raise ConfigError(
        "the config has several tables: name the topic", hint=f"topics with table storage: {', '.join(names) or 'none'}"
    )


def _as_source(found: MappedTable) -> dict[str, Any]:
    """Describes how a processor reads the table."""
    reader = found.reader
    fields = [{"name": column.name, "type": type_words(column.field_type)} for column in reader.columns]
    return {"attrs": reader.attrs, "time": reader.time, "key": list(reader.key), "fields": fields}


def _source_words(source: dict[str, Any]) -> str:
    attrs = ", ".join(f"{name} {_listed(value)}" for name, value in source["attrs"].items() if value)
    time = (
        f"query by {source['time']}" if source["time"] else "query returns all rows: no column holds the record's time"
    )
    key = f", a row per {', '.join(source['key'])}" if source["key"] else ""
    return f"{attrs}; {time}{key}"


def _listed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
