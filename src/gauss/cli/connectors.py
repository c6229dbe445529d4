"""`gauss connectors`: what is installed, what it takes, and what it finds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauss import registry
from gauss.cli import complete, connectors_test
from gauss.cli.arguments import file_and_name
from gauss.cli.client import DEFAULT_DATA_DIR, DataDirOption
from gauss.cli.output import CommandOutput, JsonOption
from gauss.config.check import check_or_raise
from gauss.config.sync_rules import KINDS
from gauss.config.type_words import type_of
from gauss.model.errors import ConfigError, NotFound
from gauss.model.paths import DataDir
from gauss.model.units import counted

if TYPE_CHECKING:
    from gauss.connect.sync import Sync

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Connectors: what is installed, takes and finds.")
app.command("test")(connectors_test.command)
FAILED = 3
FileArgument = Annotated[
    Path, typer.Argument(help="A pipeline, or a folder with a gauss.toml.", autocompletion=complete.files)
]
NameArgument = Annotated[str, typer.Argument(help="A sync of the pipeline. Default: its only one.")]


@app.command()
def ls(json: JsonOption = False) -> None:
    """List the installed sources and destinations.

    Example: gauss connectors ls
    """
    output = CommandOutput(json=json)
    found = [
        {"connector": name, "role": role, "summary": registry.spec(kind, name).summary}
        for role, kind in KINDS.items()
        for name in registry.names(kind)
    ]
    output.data({"connectors": found})
    output.table(["connector", "role", "summary"], [list(each.values()) for each in found])


@app.command()
def spec(
    name: Annotated[str, typer.Argument(help="A connector, as `gauss connectors ls` names it.")],
    json: JsonOption = False,
) -> None:
    """Show the settings of a connector.

    Example: gauss connectors spec postgres
    """
    output = CommandOutput(json=json)
    found: dict[str, Any] = {}
    for role, kind in KINDS.items():
        if name not in registry.names(kind):
            continue
        config = registry.spec(kind, name).config
        found[role] = config.model_json_schema()
        output.line(f'{role} = {{ connector = "{name}", … }}', style="bold")
        rows = [
            [field.alias or key, type_of(field), "required" if field.is_required() else str(field.default)]
            for key, field in config.model_fields.items()
        ]
        output.table(["setting", "type", "default"], rows)
    if not found:
        known = sorted({each for kind in KINDS.values() for each in registry.names(kind)})
        raise NotFound(f'no connector "{name}"', hint=f"installed: {', '.join(known)}")
    output.data({"connector": name, "config": found})


@app.command()
def check(
    file: FileArgument = Path(),
    name: NameArgument = "",
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Connect both sides of a sync and let them check their settings.

    Example: gauss connectors check pipeline.toml people
    """
    output = CommandOutput(json=json)
    with _sync(file, name, data_dir, output) as sync:
        found = sync.check()
    output.data({role: {"status": each.status, "message": each.message} for role, each in found.items()})
    output.table(["side", "status", "message"], [[role, each.status, each.message] for role, each in found.items()])
    if any(each.status == "failed" for each in found.values()):
        raise typer.Exit(FAILED)


@app.command()
def discover(
    file: FileArgument = Path(),
    name: NameArgument = "",
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """List the streams of a sync's source.

    Example: gauss connectors discover pipeline.toml people
    """
    import msgspec

    output = CommandOutput(json=json)
    with _sync(file, name, data_dir, output) as sync:
        catalog = sync.discover()
    output.data(msgspec.to_builtins(catalog))
    rows = [
        [
            each.name,
            counted(len(each.schema), "column"),
            ", ".join(each.supported_sync_modes),
            ", ".join(each.primary_key or []),
            "" if each.estimated_rows is None else each.estimated_rows,
        ]
        for each in catalog.streams
    ]
    output.table(["stream", "columns", "modes", "key", "rows, about"], rows, spare=["key", "rows, about"])


@contextmanager
def _sync(file: Path, name: str, data_dir: Path, output: CommandOutput) -> Iterator[Sync]:
    from gauss.connect.embedded_sides import embedded_servers
    from gauss.connect.sync import Sync

    file, name = file_and_name(file, name)
    pipeline, checked = check_or_raise(file)
    output.redactor = checked.redactor
    known = {sync.name: sync for sync in pipeline.syncs}
    if not known:
        raise ConfigError(f"{checked.file} has no [[syncs]]", hint="see: gauss docs connectors")
    if not name and len(known) > 1:
        raise ConfigError(f"{checked.file} has several syncs: {', '.join(known)}", hint="name one of them")
    if name and name not in known:
        raise NotFound(f'no sync "{name}"', hint=f"syncs of this pipeline: {', '.join(known)}")
    if pipeline.databases:
        from gauss.cli.databases import with_kept_databases
        from gauss.config.database_refs import databases_of_sync

        chosen = known[name or next(iter(known))]
        pipeline = with_kept_databases(pipeline, databases_of_sync(chosen), checked, data_dir, output.note)
        known = {sync.name: sync for sync in pipeline.syncs}
    root = data_dir.absolute()
    with embedded_servers(known[name or next(iter(known))], DataDir(root)) as sync:
        yield Sync(sync, checked.base_dir, root)
