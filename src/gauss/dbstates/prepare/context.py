"""The parts of the engine that jobs use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gauss.dbstates.instances.manager import Instances
from gauss.dbstates.runtimes.runtime import Runtime
from gauss.dbstates.settings import Settings
from gauss.dbstates.statefs.statefs import StateFS
from gauss.dbstates.store.cache import Cache
from gauss.dbstates.store.jobs import Jobs
from gauss.dbstates.store.layout import Layout
from gauss.dbstates.store.states import States
from gauss.dbstates.telemetry.audit import Audit
from gauss.dbstates.telemetry.metrics import Metrics


@dataclass(frozen=True)
class Context:
    """One of each, shared by all threads."""

    layout: Layout
    statefs: StateFS
    states: States
    cache: Cache
    jobs: Jobs
    instances: Instances
    runtime: Callable[[str], Runtime]
    """A runtime by its name."""
    settings: Callable[[], Settings]
    """The settings as they are now."""
    metrics: Metrics
    audit: Audit
