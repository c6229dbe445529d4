"""Attempts with a Wasm module: its rows arrive, and it is interrupted wherever it loops."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gauss.connect.arrow_ipc import write_batch
from gauss.connect.attempt import Outcome
from gauss.connect.host import StreamHost
from gauss.connect.wasm.connector import WasmConnector
from gauss.contracts.connector.cursor import Int64Cursor
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from gauss.contracts.connector.json_form import encode
from gauss.contracts.connector.lifecycle import JsonConfig, OpenContext
from gauss.contracts.connector.progress import Checkpoint, CheckpointEnvelope, CheckpointKind, ReadSummary
from helpers.attempts import AttemptOf, Collecting, attempt
from helpers.connectors import OneStream, module, rows, segment
from helpers.waiting import wait_until


def emitting(folder: Path, body: str) -> Callable[[Any], Any]:
    """A source as a module, which has a batch and its checkpoint in memory."""
    batch = write_batch(rows(7))
    checkpoint = Checkpoint(1, CheckpointKind.SOURCE, "users", "n", Int64Cursor(7))
    payload = encode(CheckpointEnvelope(connector_id="w", stream_name="users", checkpoint=checkpoint))
    summary = b'{"ok":{"records_read":1,"bytes_read":0,"batches_emitted":1,"checkpoint_count":1}}'
    more = " ".join(segment(at, each) for at, each in ((20_000, batch), (28_000, summary), (30_000, payload)))
    calls = body.format(batch=len(batch), payload=len(payload))
    answer = f"(i64.const {28_000 << 32 | len(summary)})"
    path = folder / "emitting.wasm"
    path.write_bytes(module(roles=("source",), bodies={"rb_run_read": f"{calls} {answer}"}, more=more))

    class Wasm(WasmConnector):
        opened = closed = 0

        def __init__(self, host: StreamHost) -> None:
            super().__init__(path, host)

    return Wasm


EMIT = "(drop (call $rb_host_emit_batch (i32.const 20000) (i32.const {batch})))"
MARK = "(drop (call $rb_host_checkpoint (i32.const 0) (i32.const 30000) (i32.const {payload})))"


def test_rows_of_a_module_reach_a_python_destination(tmp_path: Path) -> None:
    made, outcome = attempt(emitting(tmp_path, EMIT + MARK))
    assert outcome.error is None and outcome.read == ReadSummary(1, 0, 1, 1)
    assert made.made["destination"].got == [7]
    assert [each.cursor_value for each in made.both.seen.safe] == [Int64Cursor(7)]


@pytest.mark.parametrize(("role", "other"), [("source", "destination"), ("destination", "source")])
def test_module_of_the_other_role_is_named(tmp_path: Path, role: str, other: str) -> None:
    path = tmp_path / "half.wasm"
    path.write_bytes(module(roles=(other,)))
    host = getattr(OneStream(), role)
    with pytest.raises(ConnectorError, match=f"half.wasm is a {other}, expected a {role}") as caught:
        WasmConnector(path, host).open(OpenContext(JsonConfig({}), "half", "1"))
    assert caught.value.category is ErrorCategory.CONFIG


def test_module_in_an_endless_loop_is_interrupted(tmp_path: Path) -> None:
    made = AttemptOf(emitting(tmp_path, EMIT + "(loop (br 0))"), Collecting, OneStream())
    done: list[Outcome] = []
    thread = threading.Thread(target=lambda: done.append(made.attempt()))
    thread.start()
    wait_until(lambda: made.both.run.delivered, what="its batch")
    time.sleep(0.1)  # it is in its loop by now, or will be
    made.attempt.break_off(ConnectorError.internal("DEADLINE", "too late"))
    thread.join(30)
    assert done[0].error is not None and done[0].error.code == "DEADLINE"


@pytest.mark.parametrize("where", ["start", "rb_open", "rb_run_read", "rb_close"])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_endless_loop_in_any_export_is_interrupted(tmp_path: Path, where: str, when: str) -> None:
    loop = "(loop (br 0)) unreachable"
    more = f"(func $endless {loop}) (start $endless)" if where == "start" else ""
    path = tmp_path / "endless.wasm"
    path.write_bytes(module(bodies={where: loop}, more=more))
    made = AttemptOf(lambda host: WasmConnector(path, host), Collecting, OneStream())
    late = ConnectorError.internal("DEADLINE", "too late")
    if when == "before":
        made.attempt.break_off(late)
    done: list[Outcome] = []
    thread = threading.Thread(target=lambda: done.append(made.attempt()), daemon=True)
    thread.start()
    if when == "meanwhile":
        wait_until(lambda: "source" in made.made, what="the source")
        time.sleep(0.1)  # it is in its loop by now, or will be
        made.attempt.break_off(late)
    wait_until(lambda: done, 20, what="the end of both sides")
    assert done[0].error is not None and done[0].error.code == "DEADLINE"
