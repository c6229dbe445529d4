"""A running module: its memory, its limits and calls into it."""

from __future__ import annotations

import ctypes
import hashlib
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import wasmtime

from gauss.connect.abi import HostFunctions, MemoryFault
from gauss.connect.host import StreamHost
from gauss.connect.wasm.gate import IMPORTS, check_module
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.json_form import decode, encode

T = TypeVar("T")
U32 = (1 << 32) - 1
MEMORY_BYTES = 512 << 20
"""The most memory that a guest gets."""
TABLE_ELEMENTS = 1 << 20
"""The largest table of functions that a guest gets: a table is memory, too."""
MOST_MODULES = 16
"""Compiled modules that are kept."""
RESULT_BYTES = 64 << 20
"""Maximum size of a result, such as a catalog."""


class GuestMemory:
    """The linear memory of an instance. Implements `abi.Memory`."""

    def __init__(self, store: wasmtime.Store) -> None:
        self._store = store
        self.memory: wasmtime.Memory | None = None

    def read(self, pointer: int, length: int) -> bytes:
        return ctypes.string_at(self._address(pointer, length), length)

    def write(self, pointer: int, data: bytes) -> None:
        ctypes.memmove(self._address(pointer, len(data)), data, len(data))

    def _address(self, pointer: int, length: int) -> int:
        """Address of a part of the memory in this process. `wasmtime.Memory` would copy every part twice."""
        if self.memory is None:
            raise MemoryFault("the module is not instantiated yet")
        size = self.memory.data_len(self._store)
        if pointer + length > size:
            raise MemoryFault(f"bytes {pointer} to {pointer + length} are outside the memory of {size} bytes")
        return ctypes.addressof(self.memory.data_ptr(self._store).contents) + pointer


class Interrupts:
    """Ends a guest where it is, in a loop or before it has started. Called by any thread."""

    def __init__(self) -> None:
        config = wasmtime.Config()
        config.epoch_interruption = True
        self.engine = wasmtime.Engine(config)
        self.happened = False

    def __call__(self) -> None:
        self.happened = True
        self.engine.increment_epoch()


class Guest:
    """An instance of a module, with a host. Used by one thread."""

    def __init__(
        self,
        wasm: bytes,
        name: str,
        host: StreamHost,
        memory_bytes: int = MEMORY_BYTES,
        interrupts: Interrupts | None = None,
    ) -> None:
        self._name = name
        self.interrupt = interrupts or Interrupts()
        engine = self.interrupt.engine
        self._store = wasmtime.Store(engine)
        self._store.set_limits(
            memory_size=memory_bytes, memories=1, tables=4, table_elements=TABLE_ELEMENTS, instances=1
        )
        self._store.set_epoch_deadline(1)
        if self.interrupt.happened:  # before this deadline was set
            raise ConnectorError.internal("CANCELLED", f"{name} was interrupted before its start")
        self._memory = GuestMemory(self._store)
        self.functions = HostFunctions(host, self._memory)
        module = _compiled(engine, wasm, name)
        self.roles = check_module(module, name)
        linker = wasmtime.Linker(engine)
        for function, (parameters, _results) in IMPORTS.items():
            self._define(linker, function, parameters)
        try:
            self._exports: Any = linker.instantiate(self._store, module).exports(self._store)
        except (wasmtime.WasmtimeError, wasmtime.Trap) as error:
            raise self._failed("its start", error) from error
        self._memory.memory = cast(wasmtime.Memory, self._exports["memory"])

    def _define(self, linker: wasmtime.Linker, function: str, parameters: tuple[str, ...]) -> None:
        kinds = {"i32": wasmtime.ValType.i32(), "i64": wasmtime.ValType.i64()}
        run = getattr(self.functions, function.removeprefix("rb_host_"))
        signed = SIGNED.get(function, ())

        def call(*given: int) -> int:
            # Addresses and lengths are u32; wasmtime passes every i32 as a signed number.
            done: int = run(*(value if at in signed else value & U32 for at, value in enumerate(given)))
            return done

        kind = wasmtime.FuncType([kinds[each] for each in parameters], [wasmtime.ValType.i32()])
        linker.define_func("env", function, kind, call)

    def call(self, function: str, argument: object, kind: type[T]) -> T:
        """Calls an export with a JSON argument and decodes its result; raises ConnectorError, its own or the host's."""
        data = encode(argument)
        try:
            pointer = self._exports["rb_allocate"](self._store, len(data)) & U32
            self._memory.write(pointer, data)
            packed = self._exports[function](self._store, _signed(pointer), len(data))
            self._exports["rb_deallocate"](self._store, _signed(pointer), len(data))
            result = self._result(function, packed & ((1 << 64) - 1))
        except (wasmtime.WasmtimeError, wasmtime.Trap, MemoryFault) as error:
            raise self._failed(function, error) from error
        return self._decoded(function, result, kind)

    def _result(self, function: str, packed: int) -> bytes:
        pointer, length = packed >> 32, packed & U32
        if length > RESULT_BYTES:
            raise ConnectorError.internal(
                "BAD_RESULT", f"{self._name}: the result of {function} has {length:,} bytes, at most {RESULT_BYTES:,}"
            )
        data = self._memory.read(pointer, length)
        self._exports["rb_deallocate"](self._store, _signed(pointer), _signed(length))
        return data

    def _decoded(self, function: str, data: bytes, kind: type[T]) -> T:
        try:
            found = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
            if found.keys() == {"err"}:
                error, corrected = ConnectorError.from_json(bytes(found["err"]))
                if corrected:
                    self.functions.warn(f"{function}: {corrected}")
                raise error
            if found.keys() != {"ok"}:
                raise msgspec.ValidationError("expected ok or err")
            return decode(bytes(found["ok"]), kind)
        except msgspec.MsgspecError as error:
            raise ConnectorError.internal(
                "BAD_RESULT", f"{self._name}: the result of {function} can't be read: {error}"
            ) from error

    def close(self) -> None:
        """Calls `rb_close`; raises ConnectorError if it fails."""
        self.functions.failure = None  # of earlier calls
        try:
            code = self._exports["rb_close"](self._store)
        except (wasmtime.WasmtimeError, wasmtime.Trap) as error:
            raise self._failed("rb_close", error) from error
        if code:
            raise self.functions.failure or ConnectorError.internal(
                "CLOSE_FAILED", f"{self._name}: rb_close returned {code}"
            )

    def _failed(self, function: str, error: Exception) -> ConnectorError:
        if self.interrupt.happened:
            return ConnectorError.internal("CANCELLED", f"{self._name} was interrupted in {function}")
        if isinstance(error, MemoryFault):
            return ConnectorError.internal("BAD_POINTER", f"{self._name}: {function}: {error}")
        return ConnectorError.internal("TRAP", f"{self._name} trapped in {function}: {_first(error)}")


_compiled_modules: dict[bytes, bytes] = {}
"""Machine code by the hash of a module: compiling takes some 200 ms, and each stream has a guest of its own."""


def _compiled(engine: wasmtime.Engine, wasm: bytes, name: str) -> wasmtime.Module:
    digest = hashlib.sha256(wasm).digest()
    try:
        if digest in _compiled_modules:
            return wasmtime.Module.deserialize(engine, _compiled_modules[digest])
        module = wasmtime.Module(engine, wasm)
    except wasmtime.WasmtimeError as error:
        raise ConnectorError.config("BAD_MODULE", f"{name} is not a WebAssembly module: {_first(error)}") from error
    if len(_compiled_modules) >= MOST_MODULES:
        _compiled_modules.clear()
    _compiled_modules[digest] = bytes(module.serialize())
    return module


SIGNED: dict[str, tuple[int, ...]] = {
    "rb_host_state_get": (0,),
    "rb_host_state_put": (0,),
    "rb_host_checkpoint": (0,),
    "rb_host_log": (0,),
    "rb_host_report_progress": (0, 1),
}
"""The parameters of host functions that are signed: scopes, kinds, levels and totals."""


def _signed(value: int) -> int:
    """A u32 as the i32 with the same bits."""
    return value - (1 << 32) if value > U32 >> 1 else value


def _first(error: Exception) -> str:
    """The reason at the end of a message of wasmtime, whose first lines are a trace of the guest."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    caused = [
        line.removeprefix("Caused by:").strip() for line in lines if line.startswith(("Caused by:", "wasm trap:"))
    ]
    if "Caused by:" in lines:
        caused = lines[lines.index("Caused by:") + 1 :]
    return (caused or lines or [type(error).__name__])[-1].removeprefix("0: ").removeprefix("wasm trap: ")


def read_module(path: Path) -> bytes:
    """The bytes of a module; raises ConnectorError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConnectorError.config("NO_MODULE", f"{path} can't be read: {error.strerror}") from error
