"""Walks over bytes: plain Python for a few records, machine code by numba once there is work for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

from gauss.model.compiled import COUNTED

WORTH_COMPILING = 3_000
"""Records walked before numba is loaded: it costs a second and 120 MB."""

RECORD_BYTES = 64
"""What one record's worth of bytes is."""


class Walk:
    """A function of plain loops and integers, and the functions it calls."""

    def __init__(
        self, function: Callable[..., Any], *helpers: Callable[..., Any], worth: int = WORTH_COMPILING
    ) -> None:
        """A helper may call those before it; `worth` is after how many records the walk is compiled."""
        self._function, self._helpers, self._worth = function, helpers, worth
        self._compiling = False
        self._compiled: Callable[..., Any] | None = None
        self._walked = 0
        self._lock = threading.Lock()

    def ready(self, records: int, nbytes: int) -> tuple[Callable[..., Any], bool]:
        """(function, whether it is compiled and wants arrays instead of lists and bytes) for so much more work."""
        self._walked += max(records, nbytes // RECORD_BYTES)
        if self._compiled is None and self._walked >= self._worth:
            self.compile()
        return (self._compiled, True) if self._compiled is not None else (self._function, False)

    def compiled(
        self, records: int, nbytes: int, warm_up: Callable[[Callable[..., Any]], object]
    ) -> Callable[..., Any] | None:
        """The compiled function, if it is there: it is made in the background, and called once before it is given."""
        self._walked += max(records, nbytes // RECORD_BYTES)
        if self._compiled is None and self._walked >= self._worth and not self._compiling:
            self._compiling = True
            threading.Thread(target=self.compile, args=(warm_up,), daemon=True).start()
        return self._compiled

    def compile(self, warm_up: Callable[[Callable[..., Any]], object] = lambda _: None) -> None:
        """Makes machine code, unless there is some already."""
        with self._lock:
            if self._compiled is None:
                made = self._compile()
                warm_up(made)
                self._compiled = made

    def _compile(self) -> Callable[..., Any]:
        import numba

        made: dict[str, Any] = {}
        for function in (*self._helpers, self._function):
            # A copy that calls the compiled helpers: the original goes on calling the plain ones.
            copy = FunctionType(function.__code__, {**function.__globals__, **made}, function.__name__)
            copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
            # Without inlining, a call passes every field of every array.
            inline = function is not self._function
            options = {"nogil": True, "forceinline": inline, "error_model": "numpy", "_nrt": COUNTED}
            made[function.__name__] = numba.njit(cache=True, **options)(copy)
        found: Callable[..., Any] = made[self._function.__name__]
        return found


def utf8_end(data: Any, position: int, stop: int) -> int:
    """`stop` if the bytes up to there are UTF-8, else -1."""
    while position < stop:
        byte = data[position] & 255
        position += 1
        if byte < 128:
            continue
        follow, low, high = 0, 128, 191
        if 194 <= byte <= 223:
            follow = 1
        elif 224 <= byte <= 239:
            follow = 2
            low = 160 if byte == 224 else 128
            high = 159 if byte == 237 else 191
        elif 240 <= byte <= 244:
            follow = 3
            low = 144 if byte == 240 else 128
            high = 143 if byte == 244 else 191
        if follow == 0 or position + follow > stop:
            return -1
        for _ in range(follow):
            byte = data[position] & 255
            if not low <= byte <= high:
                return -1
            low, high = 128, 191
            position += 1
    return stop
