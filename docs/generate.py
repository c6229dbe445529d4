"""Writes docs/reference from the config models themselves: `make docs`; `--check` only says whether it is stale."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from docs import conformance, http_page, scaling_page
from gauss import registry
from gauss.config.spec import Pipeline
from gauss.config.type_words import type_of, unit_of
from gauss.config.validate import inner_model
from gauss.contracts.connector.spec import DestinationSpec, SourceSpec
from gauss.contracts.format import FormatSpec
from gauss.contracts.framing import FramingSpec
from gauss.contracts.plugin import PluginSpec
from gauss.contracts.processor import ProcessorSpec
from gauss.contracts.storage import StorageSpec
from gauss.contracts.transport import TransportSpec
from gauss.stream.graph import STATE

BESIDE = (conformance, http_page, scaling_page)
"""Pages that stand beside the reference."""
FOLDER = Path(__file__).parent / "reference"
NOTE = "<!-- Written by docs/generate.py from the config models: change those, then run `make docs`. -->\n\n"

KINDS: dict[type[PluginSpec], str] = {
    FramingSpec: "How a byte stream is cut into records. Named in `input` of a source and `output` of a sink.",
    FormatSpec: "What a record's bytes hold. Named in `[[formats]]`, or by the plugin's name if it needs no settings.",
    StorageSpec: "Where a topic's records are kept. Named by `storage`; the settings stand in `storage_config`.",
    TransportSpec: "Where byte streams come from and go to. Named by `transport` in an edge's `config`.",
    SourceSpec: "Where a sync reads its streams. Named by `connector` in `source` of `[[syncs]]`, beside its settings.",
    DestinationSpec: "Where a sync writes. Named by `connector` in `destination` of `[[syncs]]`, beside its settings.",
    ProcessorSpec: "Everything that moves records. Named by `plugin` in `[[processors]]`; settings stand in `config`.",
}


def pages() -> dict[str, str]:
    """File name → text of every page."""
    found = {"pipeline.md": _pipeline_page()}
    for kind, opening in KINDS.items():
        body = "\n".join(_plugin(registry.spec(kind, name)) for name in registry.names(kind))
        found[f"{kind.KIND}s.md"] = f"{NOTE}# {kind.KIND.capitalize()}s\n\n{opening}\n\n{body}"
    found["commands.md"] = _commands_page()
    index = "".join(f"- [{name.removesuffix('.md')}]({name})\n" for name in sorted(found))
    found["README.md"] = f"{NOTE}# Reference\n\n{index}"
    return found


def _pipeline_page() -> str:
    opening = (
        "TOML 1.1. `${NAME}` and `${file:path}` in any text are filled in from the environment or a file and never"
        " printed; `${NAME:-value}` is the value if the variable is unset or empty; `$${` is a plain `${`."
        ' What they fill in may be a number (`port = "${PORT}"`); elsewhere a number in'
        " quotes is refused. Relative paths start at the file's folder."
    )
    parts = [f"{NOTE}# A pipeline's file\n\n{opening}\n"]
    for name, field in Pipeline.model_fields.items():
        model = inner_model(field.annotation)
        assert model is not None
        repeated = str(field.annotation).startswith("list")
        parts.append(f"## `{'[[' if repeated else '['}{name}{']]' if repeated else ']'}`\n")
        parts.append(f"{_doc(model)}\n\n{_table(model)}")
    return "\n".join(parts)


def _plugin(spec: PluginSpec) -> str:
    facts = _facts(spec)
    table = _table(spec.config)
    summary = spec.summary[:1].upper() + spec.summary[1:].rstrip(".") + "."
    example = f"```toml\n{spec.example.strip()}\n```\n" if isinstance(spec, ProcessorSpec) and spec.example else ""
    parts = [f"## `{spec.name}`\n", f"{summary}\n", facts, table or "No settings.\n", example]
    return "\n".join(filter(None, parts))


def _facts(spec: PluginSpec) -> str:
    """A plugin's capabilities, in a line."""
    if isinstance(spec, ProcessorSpec):
        said = [
            f"a {spec.role}",
            _active(spec),
            STATE[spec.stateful],
            {"engine": "runs in the engine", "spark": "runs on Spark"}.get(
                spec.where, "runs on Spark if it reads rows of a table, else in the engine"
            ),
        ]
        if spec.role != "source":
            said.append(f"reads by {', '.join(sorted(spec.reads))}{_rows_of_tables(spec)}")
        return f"*{'; '.join(said)}.*\n"
    if isinstance(spec, StorageSpec):
        kept = "survives the engine" if spec.durable else "is lost with the engine"
        modes = ", ".join(sorted(spec.read_modes(spec.config.model_construct())))
        return f"*Read modes: {modes}; what it holds {kept}.*\n"
    return ""


def _rows_of_tables(spec: ProcessorSpec) -> str:
    takes = spec.role == "transform" and spec.where != "engine" and not spec.stateful and "query" in spec.reads
    return ", tables by query, snapshot, subscribe" if takes and not spec.own_side else ""


def _active(spec: ProcessorSpec) -> str:
    if not spec.active:
        return "passive (one record out for each in)"
    unless = f", passive {spec.passive_when[0]}" if spec.passive_when is not None else ""
    return f"active (changes the number of records){unless}"


def _table(model: type[BaseModel]) -> str:
    rows = list(_rows(model, ""))
    if not rows:
        return ""
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _rows(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str, str]]:
    meanings = _meanings(model)
    for name, field in model.model_fields.items():
        yield f"`{prefix}{field.alias or name}`", type_of(field), _default(field), meanings.get(name, "")
        inner = inner_model(field.annotation)
        if inner is not None and inner is not model:
            many = "[]" if "list" in str(field.annotation) or "tuple" in str(field.annotation) else ""
            yield from _rows(inner, f"{prefix}{name}{many}.")
    if model.model_config.get("extra") == "allow":
        yield f"`{prefix}…`", "", "", "Parameters of the framing, see [framings](framings.md)."


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value: Any = field.get_default(call_default_factory=True)
    if value is None or isinstance(value, BaseModel) or value in ([], {}, ()):
        return "–"
    if isinstance(value, Enum):
        value = value.value
    if unit_of(field) == "a duration":
        return f'`"{_scaled(value, ((60_000, "m"), (1_000, "s"), (1, "ms")))}"`'
    if unit_of(field) == "a size in bytes":
        return f'`"{_scaled(value, ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")))}"`'
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value!a}`".replace("'", '"') if isinstance(value, str) else f"`{value}`"


def _scaled(value: int, units: tuple[tuple[int, str], ...]) -> str:
    size, name = next((size, name) for size, name in units if value % size == 0)
    return f"{value // size}{name}"


def _doc(model: type[BaseModel]) -> str:
    text = " ".join((model.__doc__ or "").split())
    return text.partition(": ")[2][:1].upper() + text.partition(": ")[2][1:] if text.startswith("`[") else text


def _meanings(model: type[BaseModel]) -> dict[str, str]:
    """The docstring under each field, of the model and its bases."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if not issubclass(base, BaseModel) or base is BaseModel:
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(body, ast.ClassDef)
        for line, following in zip(body.body, body.body[1:], strict=False):
            if (
                isinstance(line, ast.AnnAssign)
                and isinstance(line.target, ast.Name)
                and isinstance(following, ast.Expr)
                and isinstance(following.value, ast.Constant)
            ):
                found[line.target.id] = " ".join(str(following.value.value).split())
    return found


def _commands_page() -> str:
    from gauss.cli.main import COMMANDS, EXIT_CODES, load_command

    parts = [f"{NOTE}# Commands\n\n{' '.join(EXIT_CODES.split())}.\n"]
    for name in COMMANDS:
        command = load_command(name)
        children = getattr(command, "commands", {})
        if children:
            parts.append(f"## `gauss {name}`\n\n{COMMANDS[name]}\n")
        for child, found in children.items() if children else [("", command)]:
            parts.append(_command(f"gauss {name} {child}".strip(), found, "###" if children else "##"))
    return "\n".join(parts)


def _command(name: str, command: Any, level: str) -> str:
    rows = ["| argument | meaning |", "|---|---|"]
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            called = f"`{parameter.name.upper()}`"
        else:
            called = ", ".join(f"`{option}`" for option in parameter.opts)
        rows.append(f"| {called} | {' '.join((getattr(parameter, 'help', '') or '').split())} |")
    told = inspect.cleandoc(command.help or "")
    return f"{level} `{name}`\n\n{told}\n\n" + "\n".join(rows) + "\n"


def main() -> None:
    wanted = pages()
    there = {file.name: file.read_text(encoding="utf-8") for file in FOLDER.glob("*.md")}
    if "--check" in sys.argv:
        stale = sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))
        for module in BESIDE:
            if not module.PAGE.exists() or module.PAGE.read_text(encoding="utf-8") != module.page():
                stale.append(f"../{module.PAGE.name}")
        if stale:
            sys.exit(f"docs/reference is stale ({', '.join(stale)}): run `make docs`")
        return
    for module in BESIDE:
        module.PAGE.write_text(module.page(), encoding="utf-8")
    FOLDER.mkdir(exist_ok=True)
    for name in there.keys() - wanted.keys():
        (FOLDER / name).unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
