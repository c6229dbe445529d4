"""Checks a config: syntax, types, plugins and graph. Starts nothing and imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from gauss import registry
from gauss.config.database_rules import check_databases
from gauss.config.entries import Entries, read_entries
from gauss.config.faults import Fault, Faults, Scope
from gauss.config.files import check_file, check_files
from gauss.config.graph_rules import check_graph
from gauss.config.io_rules import IoRules
from gauss.config.load import find_file, load
from gauss.config.positions import KeyPath, Position
from gauss.config.secrets import Redactor, remember_written, substitute
from gauss.config.spec import FormatDef, Pipeline
from gauss.model.errors import ConfigError
from gauss.model.units import counted


@dataclass(frozen=True)
class Checked:
    """The result of a check: all faults, and the resolved pipeline if none of them is an error."""

    file: Path
    faults: list[Fault]
    pipeline: Pipeline | None
    redactor: Redactor
    """Redacts every value that came from the environment or a file. Use it for everything that is printed or logged."""
    positions: dict[KeyPath, Position] = field(default_factory=dict)
    """Where each key is."""

    @property
    def base_dir(self) -> Path:
        """The folder to which relative paths in the config refer."""
        return self.file.resolve().parent

    @property
    def errors(self) -> list[Fault]:
        return [fault for fault in self.faults if not fault.warning]

    @property
    def warnings(self) -> list[Fault]:
        return [fault for fault in self.faults if fault.warning]


def check(given: Path) -> Checked:
    """Checks a config file, or the one in a folder. Raises only if there is no such file."""
    file = find_file(given)
    document = load(file)
    if document.fault is not None:
        return Checked(file, [document.fault], None, Redactor())
    faults = Faults(file, document.positions)
    base_dir = file.resolve().parent
    registry.look_in(base_dir)

    def missing(path: KeyPath, problem: str, hint: str) -> None:
        faults.add(path, problem, hint=hint)
        faults.settle(path)  # the value is unknown, so it cannot be checked further

    data = substitute(document.data, base_dir, faults.redactor, missing)
    remember_written(data, faults.redactor)
    _refuse_huge_numbers(data, faults)
    entries = read_entries(data, base_dir, faults)
    for scope, schema_map in entries.schema_maps:
        check_file(schema_map.script, "script", base_dir, scope)
    if entries.api.tls is not None:
        check_files(entries.api.tls, base_dir, Scope(faults, ("api", "tls"), "[api]"))
    formats = IoRules(entries)
    formats.check()
    check_databases(entries, base_dir)
    check_graph(entries, faults)
    pipeline = None if faults.errors else _resolve(entries, list(formats.implied.values()))
    return Checked(file, faults.sorted(), pipeline, faults.redactor, document.positions)


def _refuse_huge_numbers(value: object, faults: Faults, path: KeyPath = ()) -> None:
    """Reports integers beyond 64 bits, which TOML does not allow but tomli accepts."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if isinstance(item, int) and not -(2**63) <= item < 2**63:
            faults.add((*path, key), f'"{key}" is not valid', expected="an integer of 64 bits", found=item)
            faults.settle((*path, key))
        _refuse_huge_numbers(item, faults, (*path, key))


def check_or_raise(given: Path) -> tuple[Pipeline, Checked]:
    """Returns the pipeline of a valid config; raises one error that lists all faults otherwise."""
    checked = check(given)
    if checked.pipeline is None:
        listed = "\n".join(str(fault) for fault in checked.errors)
        count = len(checked.errors)
        raise ConfigError(
            f"{checked.file} has {counted(count, 'error')}:\n{listed}",
            hint=f"run gauss check {checked.file}",
        )
    return checked.pipeline, checked


def _resolve(entries: Entries, implied: list[FormatDef]) -> Pipeline:
    """The pipeline with every format that is used, including those named only by their plugin."""
    return Pipeline(
        formats=[*(entry.definition for entry in entries.formats), *implied],
        schema_maps=[schema_map for _, schema_map in entries.schema_maps],
        topics=[entry.definition for entry in entries.topics],
        processors=[entry.definition for entry in entries.processors],
        syncs=[sync for _, sync in entries.syncs],
        databases=[database for _, database in entries.databases],
        spark=entries.spark,
        engine=entries.engine,
        api=entries.api,
    )
