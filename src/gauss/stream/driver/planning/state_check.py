"""Detects, before a run, state in a data directory that does not fit the changed config."""

from __future__ import annotations

from gauss.config.spec import Pipeline, ProcessorDef
from gauss.contracts.processor import ProcessorSpec
from gauss.model.errors import ConfigError
from gauss.model.paths import DataDir
from gauss.registry import spec
from gauss.stream.driver.planning.checkpoint import last_started
from gauss.stream.driver.planning.fingerprint import plan_hash


def lost_state(pipeline: Pipeline, entry: ProcessorDef, data_dir: DataDir, state: str = "") -> ConfigError | None:
    """The error if a processor's state of its last run does not fit its config, with the options. `state`: the state in
    its Spark plan, for one that does not declare it. State that is also stored in a topic is not lost."""
    declared, last = spec(ProcessorSpec, entry.plugin), last_started(data_dir, entry.name)
    if last is None or (declared.state is not None and declared.state(declared.validate(entry.config))):
        return None
    had_state = declared.stateful or last.state
    if not had_state or plan_hash(pipeline, entry, state) == last.folder:
        return None
    return ConfigError(
        f"the state in {data_dir.root} does not fit the changed config: records that it has read but not"
        " yet written exist only in that state, so the run will stop this processor",
        hint=f"undo the change; or, in the run: gauss processors rebuild {entry.name} (empty the target and read"
        f" all retained records again), or gauss processors drop-state {entry.name} (continue with an empty state)",
    )
