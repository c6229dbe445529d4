"""A schema map: a Starlark script whose `map_schema(source, target)` fills in a table's columns.

`source` and `target` are dicts with the keys of the specification; types are `{"name": …, "attrs": {…}}`. A script
sees no file, no network and no clock, and has a number of steps, a time and some memory to end in.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from gauss.contracts.format import SourceSchema
from gauss.contracts.target import TargetField, TargetSchema, as_field_type, field_type_dict
from gauss.mapping.row import RECORD_TIME
from gauss.model.errors import ConfigError

MAX_STEPS = 2_000_000
MAX_BYTES = 384 << 20
"""Maximum address space of the script's process; the interpreter itself takes a quarter of it."""
MAX_SECONDS = 10
"""Maximum CPU time of the script's process."""
PATIENCE_S = 120.0
MAX_DEPTH = 64
PROCESS = Path(__file__).with_name("starlark_process.py")
_WHERE = re.compile(r"--> (?P<file>[^\n]*?):(?P<line>\d+):(?P<column>\d+)")


def run_file(script: Path, source: SourceSchema, target: TargetSchema) -> TargetSchema:
    """Runs the script of a file on both schemas; raises ConfigError with file and line."""
    return run(_read(script), str(script), source, target)


def check_file(script: Path) -> None:
    """Raises ConfigError if a script is not valid Starlark or has no `map_schema`, without running that."""
    _evaluate({"text": _read(script), "name": str(script)})


def _read(script: Path) -> str:
    try:
        return script.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the schema map {script} can't be read: {error}") from None


def run(text: str, name: str, source: SourceSchema, target: TargetSchema) -> TargetSchema:
    """Runs a script on both schemas; `name` is used in messages."""
    made = _evaluate({"text": text, "name": name, "source": _source(source), "target": _target(target)})
    return _result(made, name, source)


def _evaluate(request: dict[str, Any]) -> object:
    """The result of `map_schema`, evaluated in its own process."""
    limits = {"max_steps": MAX_STEPS, "max_depth": MAX_DEPTH, "max_bytes": MAX_BYTES, "max_seconds": MAX_SECONDS}
    name = request["name"]
    try:
        done = subprocess.run(
            [sys.executable, "-E", "-s", str(PROCESS)],
            input=json.dumps({**request, **limits}, default=str).encode(),
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _stopped(name, f"did not end within {PATIENCE_S:.0f} s") from None
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise _stopped(name, f"took more than {MAX_SECONDS} s of a processor")
    if done.returncode:
        raise _stopped(name, f"took more than {MAX_BYTES >> 20} MiB of memory")
    answer = json.loads(done.stdout)
    if "endless" in answer:
        raise _stopped(name, f"did not end within {MAX_STEPS:,} steps")
    if "error" in answer:
        raise _fault(answer["error"], name, request["text"])
    return answer["made"]


def _stopped(name: str, why: str) -> ConfigError:
    return ConfigError(f"{name}: the schema map {why}", hint="look for a loop or a value that grows")


def _source(schema: SourceSchema) -> dict[str, Any]:
    fields = [{"name": field.name, "field_type": field_type_dict(field.field_type.native)} for field in schema.fields]
    return {"fields": fields, "attrs": dict(schema.attrs)}


def _target(schema: TargetSchema) -> dict[str, Any]:
    return {"fields": [], "attrs": dict(schema.attrs)}


_RHAI = re.compile(r"^\s*(?:fn\s+\w+\s*\(|let\s+\w+\s*=)|#\{|^\s*//", re.MULTILINE)


def _other_language(script: str) -> str:
    """A hint for a script that is written in Rhai; empty for any other."""
    if not _RHAI.search(script):
        return ""
    return (
        "it looks like Rhai, and scripts are Starlark, which has Python's syntax: `def map_schema(source, target):`"
        ' instead of `fn`, {"name": "sym"} instead of #{ name: "sym" }, # instead of //; see gauss docs schema-maps'
    )


def _fault(text: str, name: str, script: str) -> ConfigError:
    problem = next((line for line in text.splitlines() if line.startswith("error: ")), text.strip())
    problem = problem.removeprefix("error: ").removeprefix("fail: ")
    if problem in ("Module has no symbol `map_schema`", "Variable `map_schema` not found"):
        return ConfigError(f"{name}: expected a function map_schema(source, target), found none")
    # The last position in the trace is where the script failed; those above it are its callers.
    places = list(_WHERE.finditer(text))
    where = f"{name}:{places[-1]['line']}:{places[-1]['column']}" if places else name
    if hint := _other_language(script):
        return ConfigError(
            f"{where}: the script is no Starlark: {problem.partition(', expected one of')[0]}", hint=hint
        )
    return ConfigError(f"{where}: {problem}")


def _result(made: object, name: str, source: SourceSchema) -> TargetSchema:
    if not isinstance(made, dict) or not isinstance(made.get("fields"), list):
        raise ConfigError(
            f"{name}: expected map_schema to return target, found {made!r:.80}", hint="end with `return target`"
        )
    attrs = made.get("attrs", {})
    if not isinstance(attrs, dict):
        raise ConfigError(f"{name}: expected target.attrs to be a dict, found {attrs!r:.80}")
    known = {field.name for field in source.fields} | RECORD_TIME
    fields = [_field(entry, name, known) for entry in made["fields"]]
    if not fields:
        raise ConfigError(f"{name}: map_schema gave no columns", hint='append to target["fields"]')
    twice = {field.name for field in fields if [other.name for other in fields].count(field.name) > 1}
    if twice:
        raise ConfigError(f"{name}: column {sorted(twice)[0]!r} is there twice", hint="give each column its own name")
    return TargetSchema(tuple(fields), attrs)


_KEYS = {"name", "field_type", "source", "props"}


def _field(entry: object, name: str, known: set[str]) -> TargetField:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or "field_type" not in entry:
        raise ConfigError(f"{name}: expected a column {{name, field_type, source?, props?}}, found {entry!r:.120}")
    column = entry["name"]
    if unknown := sorted(set(entry) - _KEYS):
        raise ConfigError(
            f"{name}: column {column!r} has the unknown key {unknown[0]!r}", hint=", ".join(sorted(_KEYS))
        )
    try:
        field_type = as_field_type(entry["field_type"])
    except ConfigError as error:
        raise ConfigError(f"{name}: column {column!r}: {error.message}", hint=error.hint) from None
    source, props = entry.get("source"), entry.get("props") or {}
    if source is not None and source not in known:
        raise ConfigError(
            f"{name}: column {column!r} reads the unknown field {source!r}", hint=", ".join(sorted(known))
        )
    if not isinstance(props, dict):
        raise ConfigError(f"{name}: column {column!r}: expected props to be a dict, found {props!r:.80}")
    if source is None and not {"default", "materialized", "generated", "alias"} & set(props):
        raise ConfigError(
            f"{name}: nothing gives column {column!r} a value",
            hint="name its `source`, or a `default`, `materialized` or `generated` in its props",
        )
    return TargetField(column, field_type, source, props)
