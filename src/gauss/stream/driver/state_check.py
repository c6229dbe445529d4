"""State in a data directory that a changed config no longer fits, found before the run."""

from __future__ import annotations

from gauss.config.spec import Pipeline, ProcessorDef
from gauss.contracts.processor import ProcessorSpec
from gauss.model.errors import ConfigError
from gauss.model.paths import DataDir
from gauss.registry import spec
from gauss.stream.driver.checkpoint import last_started
from gauss.stream.driver.fingerprint import plan_hash


def lost_states(pipeline: Pipeline, data_dir: DataDir) -> list[tuple[str, ConfigError]]:
    """The processors whose state does not fit their config any more, or may not, with the choices. A processor that
    keeps its state in a topic too restores it from there."""
    found = ((entry.name, _lost(pipeline, entry, data_dir)) for entry in pipeline.processors)
    return [(name, error) for name, error in found if error is not None]


def _lost(pipeline: Pipeline, entry: ProcessorDef, data_dir: DataDir) -> ConfigError | None:
    declared = spec(ProcessorSpec, entry.plugin)
    last = last_started(data_dir, entry.name)
    if last is None or (declared.state is not None and declared.state(declared.validate(entry.config))):
        return None
    if not declared.stateful and not last.basis.state:
        return None
    now = plan_hash(pipeline, entry)
    if now == (last.folder if declared.stateful else last.basis.plan):
        return None
    fits = "does not fit" if declared.stateful else "may not fit (only Spark's plan of it tells)"
    return ConfigError(
        f"the state in {data_dir.root} {fits} the changed config: what it has read and not yet written is in that state"
        " alone, and the run stops this processor before it is lost",
        hint=f"undo the change; or, in the run: gauss processors rebuild {entry.name} (read everything that is retained"
        f" again into an emptied target), or gauss processors drop-state {entry.name} (go on without the state)",
    )
