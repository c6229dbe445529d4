"""Where the connectors of a stream run: in this process, or elsewhere."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from gauss.connect.attempt import Attempt, Outcome, Side
from gauss.connect.host import StreamRun
from gauss.connect.plan import StreamPlan
from gauss.connect.program import program_of, result_schema
from gauss.contracts.connector.errors import ConnectorError


class RunningAttempt(Protocol):
    """One attempt at a stream; `drain` and `break_off` may be called by any thread."""

    def __call__(self) -> Outcome: ...

    def drain(self) -> None: ...

    def break_off(self, error: ConnectorError) -> None: ...


class Runner(Protocol):
    """Where the connectors of a stream run."""

    def result_schema(self, plan: StreamPlan) -> pa.Schema:
        """The columns of the rows that a stream's transform makes."""
        ...

    def attempt(self, plan: StreamPlan, run: StreamRun, source: Side, destination: Side) -> RunningAttempt: ...

    def close(self) -> None: ...


class LocalRunner:
    """Runs both connectors in this process."""

    def result_schema(self, plan: StreamPlan) -> pa.Schema:
        return result_schema(plan)

    def attempt(self, plan: StreamPlan, run: StreamRun, source: Side, destination: Side) -> RunningAttempt:
        run.program = program_of(plan)
        return Attempt(run, source, destination)

    def close(self) -> None:
        pass
