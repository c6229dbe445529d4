"""Plans requests: the build, the steps with what the server adds to their keys, the chain, what of it is cached."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gauss.dbstates.adapters import adapter
from gauss.dbstates.planning.plan import Adapter
from gauss.dbstates.prepare.chain import Link, chain_of
from gauss.dbstates.prepare.context import Context
from gauss.dbstates.prepare.inputs import LockedInputs
from gauss.dbstates.prepare.requests import PrepareRequest
from gauss.dbstates.runtimes.process import tuned
from gauss.dbstates.runtimes.runtime import Build, Runtime
from gauss.model.errors import ConfigError

CARRIED = frozenset({"psql", "migrations"})
"""Kinds that the psql of the server's own programs runs."""


@dataclass(frozen=True)
class Planned:
    """A request that is planned."""

    adapter: Adapter
    build: Build
    chain: list[Link]

    @property
    def ids(self) -> list[str]:
        return [link.place.id for link in self.chain]


class Planner:
    """Turns requests into chains of states."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def runtime(self, request: PrepareRequest) -> Runtime:
        """A folder names programs of this machine, anything else an image."""
        kind = self._context.settings().runtime.kind
        if request.image:
            kind = "process" if request.image.startswith("/") else "container"
        return self._context.runtime(kind)

    def image(self, request: PrepareRequest) -> str:
        settings = self._context.settings().runtime
        if request.image:
            return request.image
        return settings.image if settings.kind == "container" else settings.postgres

    def plan(self, request: PrepareRequest, build: Build, env: Mapping[str, str], inputs: LockedInputs) -> Planned:
        """The chain of a request; its inputs are locked from here on."""
        system = adapter(request.prepare_kind)
        if system.kind not in CARRIED:
            system.check(env)
        began = time.time_ns()
        plan = system.plan(request.args, Path(request.cwd), env)
        if not plan.steps:
            raise ConfigError("there is nothing to prepare", hint="name a script with -f, or a command with -c")
        build = replace(build, parameters=dict(self._context.settings().parameters))
        plan = plan.with_server({**tuned(build.version), **build.parameters}, build.extensions)
        inputs.take((each for step in plan.steps for each in step.inputs), began)
        return Planned(system, build, chain_of(plan, build))
