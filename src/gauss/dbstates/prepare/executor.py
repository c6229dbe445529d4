"""Executes the steps of a job on one working instance and takes a snapshot after each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gauss.dbstates.connector.postgres import checkpoint_if_quiet, outside_folders
from gauss.dbstates.errors import ScriptFailed
from gauss.dbstates.instances.manager import Instance
from gauss.dbstates.planning.plan import Adapter, Step
from gauss.dbstates.prepare.chain import Link
from gauss.dbstates.prepare.context import Context
from gauss.dbstates.prepare.control import JobControl
from gauss.dbstates.prepare.output import StepOutput
from gauss.dbstates.prepare.tool import run_tool, with_statement_timeout, write_passfile
from gauss.dbstates.statefs.statefs import validate
from gauss.model.errors import DiskFull, GaussError
from gauss.model.files import make_private

BY_SOCKET = frozenset({"psql", "migrations"})
"""Kinds whose tool connects to a Unix socket; those of others may not be able to."""


class Executor:
    """Runs the tool of a step and stores the state that it makes."""

    def __init__(self, context: Context) -> None:
        self._layout, self._statefs, self._states = context.layout, context.statefs, context.states
        self._cache, self._jobs, self._instances = context.cache, context.jobs, context.instances
        self._metrics, self._audit = context.metrics, context.audit
        self._runtime, self._settings = context.runtime, context.settings

    def run(self, job: str, adapter: Adapter, step: Step, instance: Instance, control: JobControl) -> None:
        """Executes a step. Raises ScriptFailed, or the error of `control`."""
        runtime = self._runtime(instance.build.runtime)
        folder = self._layout.job(job)
        make_private(folder)
        passfile = write_passfile(folder / "passfile", instance.password)
        connection = runtime.connection(instance.server, passfile, network=adapter.kind not in BY_SOCKET)
        left = [each for each in (self._settings().orchestrator.statementTimeoutSecs, control.seconds_left()) if each]
        step_env = with_statement_timeout(dict(step.env), min(left, default=None))
        command = adapter.run_command(replace(step, env=tuple(step_env.items())), connection)
        files = [Path(each.path) for each in step.inputs]
        call = runtime.tool(instance.build, instance.server, command, files)
        tool = Path(call.argv[0]).name
        self._jobs.log(job, f"{tool}: {step.title}", step=step.number)
        output = StepOutput(lambda stream, text: self._jobs.log(job, text, step=step.number, stream=stream))
        try:
            with self._metrics.timed("execution"):
                code = run_tool(call, control, output.read)
        finally:
            passfile.unlink(missing_ok=True)
        if why := instance.server.died():
            raise ScriptFailed(f"{step.title}: the server ended: {why}", hint="see the log events of the job")
        if code:
            control.check()
            raise output.failure(step.title, code)

    def store(self, job: str, link: Link, instance: Instance, *, last: bool) -> None:
        """Takes the snapshot of a state, which is used only if its server runs again afterwards. `last`: the chain ends
        with it."""
        step, place = link.step, link.place
        data = self._layout.data(instance.id)
        if outside_folders(data):
            raise ScriptFailed(
                f"{step.title} made a tablespace outside the data directory, which no snapshot contains",
                hint="leave CREATE TABLESPACE out of prepared scripts",
            )
        self._states.begin(place, job)
        try:
            with self._metrics.timed("snapshot"):
                self._jobs.log(job, "snapshot prepare", step=step.number)
                # A state that a chain ends with is cloned often: after a shutdown its clones need no recovery.
                runs = self._statefs.atomic and not last and checkpoint_if_quiet(instance.server, data)
                if not runs:
                    instance.server.stop()
                target = self._cache.path(place)
                self._cache.remove_partial(place)
                self._statefs.snapshot(data, target)
                validate(target)
            if not runs:
                self._jobs.log(job, "snapshot resume", step=step.number)
                self._resume(instance, step)
            self._states.finish(place.id, step.ingredients, step.marks)
        except BaseException as error:
            why = error.message if isinstance(error, GaussError) else f"{type(error).__name__}: {error}"
            self._states.fail(place.id, why)
            self._cache.remove_partial(place)
            raise
        self._audit.note("state_created", state_id=place.id, parent=place.parent, job_id=job, title=place.title)
        if runs:
            self._jobs.log(job, "snapshot taken of the running server", step=step.number)

    def _resume(self, instance: Instance, step: Step) -> None:
        try:
            self._instances.resume(instance)
        except DiskFull:
            raise
        except GaussError as error:
            raise ScriptFailed(
                f"after {step.title} the server does not start again: {error.message}",
                hint="see what the script does to roles and to settings of the server",
            ) from error
