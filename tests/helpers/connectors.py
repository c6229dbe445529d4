"""Hosts and guests of connectors under test."""

from __future__ import annotations

import pyarrow as pa
import wasmtime

from gauss.connect.abi import HostFunctions, MemoryFault
from gauss.connect.conformance.scratch import MemoryState, Observed
from gauss.connect.host import StreamHost, StreamRun
from gauss.connect.wasm.gate import EXPORTS, IMPORTS, RUNS
from gauss.connect.wasm.guest import Guest
from gauss.contracts.connector.progress import CheckpointKind
from gauss.contracts.connector.stream import Columns, StreamContext, StreamLimits, StreamPolicies, SyncMode

MEMORY_BYTES = 1 << 16
Values = MemoryState
Seen = Observed


class OneStream:
    """A run of one stream with its two hosts."""

    def __init__(
        self, limits: StreamLimits | None = None, policies: StreamPolicies | None = None, stream: str = "users"
    ) -> None:
        self.seen, self.state = Seen(), Values()
        context = StreamContext(
            stream,
            Columns([]),
            SyncMode.FULL_REFRESH,
            limits=limits or StreamLimits(),
            policies=policies or StreamPolicies(),
        )
        self.run = StreamRun(context, self.state, self.seen, pipeline="p")
        self.source = StreamHost(self.run, CheckpointKind.SOURCE, "source-a")
        self.destination = StreamHost(self.run, CheckpointKind.DEST, "dest-b")


def rows(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(values, pa.int64())})


class Bytes:
    """A guest's memory that is a bytearray. Implements `abi.Memory`."""

    def __init__(self) -> None:
        self.data = bytearray(MEMORY_BYTES)

    def read(self, pointer: int, length: int) -> bytes:
        self._check(pointer, length)
        return bytes(self.data[pointer : pointer + length])

    def write(self, pointer: int, data: bytes) -> None:
        self._check(pointer, len(data))
        self.data[pointer : pointer + len(data)] = data

    def _check(self, pointer: int, length: int) -> None:
        if pointer + length > len(self.data):
            raise MemoryFault("outside")


class PythonDoor:
    """The host functions, called from Python."""

    def __init__(self, host: StreamHost) -> None:
        self.memory = Bytes()
        self._functions = HostFunctions(host, self.memory)

    def call(self, function: str, *arguments: int) -> int:
        done: int = getattr(self._functions, function)(*arguments)
        return done


class WasmDoor:
    """The host functions, called by a module that forwards every call."""

    def __init__(self, host: StreamHost) -> None:
        self._guest = Guest(module(forwards=True), "forwarding.wasm", host)
        self.memory = self._guest._memory

    def call(self, function: str, *arguments: int) -> int:
        wrapped = [value - (1 << 32) if 1 << 31 <= value < 1 << 32 else value for value in arguments]
        done: int = self._guest._exports[f"call_{function}"](self._guest._store, *wrapped)
        return done


DOORS: dict[str, type[PythonDoor] | type[WasmDoor]] = {"python": PythonDoor, "wasm": WasmDoor}


def segment(place: int, data: bytes) -> str:
    """Bytes that lie in a module's memory from its start."""
    text = "".join(f"\\{byte:02x}" for byte in data)
    return f'(data (i32.const {place}) "{text}")'


def module(
    results: dict[str, bytes] | None = None,
    *,
    roles: tuple[str, ...] = ("source", "destination"),
    forwards: bool = False,
    bodies: dict[str, str] | None = None,
    without: tuple[str, ...] = (),
    more: str = "",
) -> bytes:
    """A module with the exports of its roles. `results`: what exports answer, as JSON; `bodies`: their code instead."""
    exports = dict(EXPORTS)
    for role in roles:
        exports |= RUNS[role]
    parts, data, place = [], [], 1024
    imports = "".join(
        f'(import "env" "{name}" (func ${name} (param {" ".join(given)}) (result i32)))\n'
        for name, (given, _) in IMPORTS.items()
    )
    for name, (given, made) in exports.items():
        if name in without:
            continue
        answer = (results or {}).get(name, b'{"ok":{"protocol_version":"1","status":"success","streams":[]}}')
        if made == ("i64",):
            data.append(segment(place, answer))
            body = f"(i64.const {place << 32 | len(answer)})"
            place += len(answer) + 8
        else:
            # What the host allocates lies behind the answers.
            body = {"rb_allocate": "(i32.const 32768)", "rb_deallocate": "", "rb_close": "(i32.const 0)"}[name]
        body = (bodies or {}).get(name, body)
        parameters = f"(param {' '.join(given)})" if given else ""
        result = f"(result {made[0]})" if made else ""
        parts.append(f'(func (export "{name}") {parameters} {result} {body})')
    for name, (given, _) in IMPORTS.items() if forwards else ():
        called = " ".join(f"(local.get {place})" for place in range(len(given)))
        short = name.removeprefix("rb_host_")
        parts.append(f'(func (export "call_{short}") (param {" ".join(given)}) (result i32) (call ${name} {called}))')
    memory = "" if "memory" in without else '(export "memory")'
    text = f"(module {imports} (memory {memory} 1) {' '.join(data)} {' '.join(parts)} {more})"
    return bytes(wasmtime.wat2wasm(text))
