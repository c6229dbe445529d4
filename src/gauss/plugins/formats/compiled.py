"""Walks over bytes: plain Python for a few records, machine code by numba once there is work for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

WORTH_COMPILING = 3_000
"""Records walked before numba is loaded: it costs a second and 120 MB."""


class Walk:
    """A function of plain loops and integers, and the functions it calls."""

    def __init__(self, function: Callable[..., Any], *helpers: Callable[..., Any]) -> None:
        self._function, self._helpers = function, helpers
        self._compiled: Callable[..., Any] | None = None
        self._walked = 0
        self._lock = threading.Lock()

    def ready(self, records: int) -> tuple[Callable[..., Any], bool]:
        """(function, whether it is compiled and wants arrays instead of lists and bytes) for so many more records."""
        self._walked += records
        if self._compiled is None and self._walked >= WORTH_COMPILING:
            with self._lock:
                self._compiled = self._compiled or self._compile()
        return (self._compiled, True) if self._compiled is not None else (self._function, False)

    def _compile(self) -> Callable[..., Any]:
        import numba

        made = {helper.__name__: numba.njit(cache=True, nogil=True)(helper) for helper in self._helpers}
        # A copy that calls the compiled helpers: the original goes on calling the plain ones.
        function = FunctionType(
            self._function.__code__, {**self._function.__globals__, **made}, self._function.__name__
        )
        function.__qualname__, function.__module__ = self._function.__qualname__, self._function.__module__
        compiled: Callable[..., Any] = numba.njit(cache=True, nogil=True)(function)
        return compiled


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
