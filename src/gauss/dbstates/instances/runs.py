"""Runs of psql and pgbench on an instance, told as events."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from gauss.dbstates.instances.arguments import check_arguments
from gauss.dbstates.instances.manager import Instances
from gauss.dbstates.planning.plan import Command
from gauss.dbstates.prepare.context import Context
from gauss.dbstates.prepare.control import JobControl
from gauss.dbstates.prepare.output import pieces, texts
from gauss.dbstates.prepare.tool import run_tool, write_passfile
from gauss.dbstates.runtimes.runtime import DATABASE, USER
from gauss.dbstates.store.metadata import now_ms
from gauss.model.errors import GaussError
from gauss.model.files import make_private

AHEAD = 1000
"""Events that wait for a slow client; then the tool waits."""
CHECK_MS, CHECKS_SINCE = 1000, 14
"""How often the server looks whether the tool of a statement still lives, and the version that can do so. Else the
statement of a run that was cancelled would go on, and its connection keep the instance."""
PIECE_BYTES = 256 << 10
"""A longer line is told in several events."""


class RunRequest(BaseModel):
    """A tool to run on an instance."""

    model_config = ConfigDict(extra="forbid")

    instance_id: str
    """The id of an instance, or its first 8 digits or more."""
    kind: Literal["psql", "pgbench"] = "psql"
    args: list[str] = []
    cwd: str = Field("/", pattern="^/")
    env: dict[str, str] = Field(default={}, repr=False)
    stdin: str | None = None
    """Text for the tool's standard input."""
    deadline_secs: float | None = Field(None, gt=0)


class Runs:
    """Starts runs. A run's instance lives at least as long as the run."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._active: set[JobControl] = set()

    def events(self, request: RunRequest, instance: str) -> RunEvents:
        """The events of a new run: start, stdout, stderr, log, and at last exit or error. A piece of a line that is not
        its last one has `more`."""
        check_arguments(request.kind, request.args)
        return RunEvents(self._context, request, instance, self._active)

    def stop(self) -> None:
        for control in list(self._active):
            control.cancel()


class RunEvents:
    """The events of one run, as they happen. The run ends when its reader leaves."""

    def __init__(self, context: Context, request: RunRequest, instance: str, active: set[JobControl]) -> None:
        self._context, self._request, self._instance = context, request, instance
        self._active = active
        self._control = JobControl(request.deadline_secs)
        self._left = threading.Event()
        """Set when nobody reads the events any more."""
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue(AHEAD)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self._active.add(self._control)
        threading.Thread(target=self._run, name="run", daemon=True).start()
        while (event := self._events.get()) is not None:
            yield event

    def keep(self) -> None:
        """Nothing expires while a client is slow."""

    def cancel(self) -> None:
        self._left.set()
        self._control.cancel()

    def _tell(self, kind: str, **body: Any) -> None:
        event = {"ts": now_ms(), "type": kind, **body}
        while True:
            try:
                self._events.put(event, timeout=0.1)
                return
            except queue.Full:
                self._control.check()

    def _run(self) -> None:
        try:
            self._execute()
        except GaussError as error:
            self._last({"ts": now_ms(), "type": "error", "error": error.to_dict()})
        except Exception as error:
            failure = GaussError(f"unexpected {type(error).__name__}: {error}", hint="see engine.log")
            self._last({"ts": now_ms(), "type": "error", "error": failure.to_dict()})
        finally:
            self._last(None)
            self._active.discard(self._control)

    def _last(self, event: dict[str, Any] | None) -> None:
        """Tells an event behind all others, also when the run is cancelled, unless the reader has left."""
        while True:
            try:
                self._events.put(event, timeout=0.1)
                return
            except queue.Full:
                if self._left.is_set():
                    return

    def _read(self, stream: str, chunks: Iterator[bytes]) -> None:
        for text, ends in texts(pieces(chunks, PIECE_BYTES)):
            self._tell(stream, data=text, **({} if ends else {"more": True}))

    def _execute(self) -> None:
        context, request = self._context, self._request
        instances: Instances = context.instances
        server = instances.revive(self._instance, lambda text: self._tell("log", message=text))
        row = instances.row(self._instance)
        runtime = context.runtime(row["runtime"])
        build = runtime.resolve(row["image"])
        folder = context.layout.instance(self._instance)
        make_private(folder)
        passfile = write_passfile(folder / f"passfile-{threading.get_ident()}", row["password"])
        connection = runtime.connection(server, passfile, network=False)
        env = _environment(request.env, passfile, connection.host, connection.port)
        if int(build.version.partition(".")[0]) >= CHECKS_SINCE:
            env["PGOPTIONS"] = f"-c client_connection_check_interval={CHECK_MS}"
        words = ("-X", *request.args) if request.kind == "psql" else tuple(request.args)
        stdin = None if request.stdin is None else request.stdin.encode()
        call = runtime.tool(build, server, Command((request.kind, *words), env, stdin, Path(request.cwd)), ())
        self._tell("start", tool=request.kind, args=list(request.args), instance_id=self._instance)
        try:
            with context.metrics.timed("run"):
                code = run_tool(call, self._control, self._read)
        finally:
            passfile.unlink(missing_ok=True)
            instances.touch(self._instance)
        self._tell("exit", code=code)


def _environment(given: Mapping[str, str], passfile: Path, host: str, port: int) -> dict[str, str]:
    kept = {name: value for name, value in given.items() if not name.startswith("PG")}
    return {
        "PATH": os.defpath,
        **kept,
        "PGHOST": host,
        "PGPORT": str(port),
        "PGUSER": USER,
        "PGDATABASE": DATABASE,
        "PGPASSFILE": str(passfile),
    }
