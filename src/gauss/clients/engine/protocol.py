"""The protocol between the engine and its clients (driver, Spark's workers, control), over Arrow Flight.

An action carries one msgspec struct as JSON and answers with one. A range is read by `do_get` with a `Read` as ticket,
records are written by `do_put` with a `Stage` or `Append` as descriptor, and a cursor is one `do_exchange` with an
`Open` as descriptor. A failed call has the error shape of `model.errors` in its message.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gauss.clients.engine.cursor_messages import Pinned
from gauss.clients.engine.driver_messages import DriverSync
from gauss.clients.engine.task_messages import (
    Abort,
    Busy,
    Claim,
    Emptied,
    Latest,
    Missed,
    Next,
    ProcessorFailure,
    Publish,
    PublishAll,
    StageDead,
    StageTime,
    StillClaimed,
)

MAX_ACTION_BYTES = 16 << 20


class Command(msgspec.Struct, tag=True):
    """A command of the CLI or the HTTP API; `stream/engine/server/commands.py` lists them."""

    name: str
    args: dict[str, Any] = {}


OfTask = (
    Claim
    | StillClaimed
    | Next
    | ProcessorFailure
    | Busy
    | Emptied
    | Missed
    | Pinned
    | StageDead
    | Publish
    | PublishAll
    | Abort
)


Action = OfTask | Latest | StageTime | DriverSync | Command
