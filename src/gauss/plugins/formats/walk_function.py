"""Functions that walk over bytes: plain Python for a few records, machine code once there are many."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

from gauss.model.jit import compiled, is_cached

WORTH_COMPILING = 3_000
"""Default number of records after which a walk is compiled: loading numba takes a second and 120 MB."""

RECORD_BYTES = 64
"""A batch counts as one record per so many bytes if it has fewer records than that."""


class WalkFunction:
    """A function of plain loops and integers, and the functions it calls."""

    def __init__(
        self, function: Callable[..., Any], *helpers: Callable[..., Any], worth: int = WORTH_COMPILING
    ) -> None:
        """A helper may call the helpers before it. The walk is compiled after `worth` records."""
        self._function, self._helpers, self._worth = function, helpers, worth
        self._compiling = False
        self._compiled: Callable[..., Any] | None = None
        self._walked = 0
        self._lock = threading.Lock()

    def ready(self, records: int, nbytes: int) -> tuple[Callable[..., Any], bool]:
        """(function, whether it is compiled). A compiled one takes arrays, a plain one lists and bytes."""
        self._walked += max(records, nbytes // RECORD_BYTES)
        if self._compiled is None and self._walked >= self._worth:
            self.compile()
        return (self._compiled, True) if self._compiled is not None else (self._function, False)

    def compiled(
        self, records: int, nbytes: int, warm_up: Callable[[Callable[..., Any]], object]
    ) -> Callable[..., Any] | None:
        """The compiled function, or None until a background thread has compiled it and called `warm_up` with it."""
        self._walked += max(records, nbytes // RECORD_BYTES)
        if self._compiled is None and self._walked >= self._worth and not self._compiling:
            self._compiling = True
            threading.Thread(target=self.compile, args=(warm_up,), daemon=True).start()
        return self._compiled

    def compile(self, warm_up: Callable[[Callable[..., Any]], object] = lambda _: None) -> None:
        """Compiles the function. Idempotent."""
        with self._lock:
            if self._compiled is None:
                made = self._compile()
                warm_up(made)
                self._compiled = made

    def load_cached(self, warm_up: Callable[[Callable[..., Any]], object]) -> bool:
        """Loads the machine code that an earlier process has cached; returns whether it was there. Compiles nothing.

        `warm_up` calls the function that it is given with arguments of the usual types.
        """
        made = self._compile()

        def call(*arguments: Any) -> None:
            if not is_cached(made, *arguments):
                raise _NotCachedError
            made(*arguments)

        try:
            warm_up(call)
        except _NotCachedError:
            return False
        self._compiled = made
        return True

    def _compile(self) -> Callable[..., Any]:
        made: dict[str, Any] = {}
        for function in (*self._helpers, self._function):
            # A copy that calls the compiled helpers: the original goes on calling the plain ones.
            copy = FunctionType(function.__code__, {**function.__globals__, **made}, function.__name__)
            copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
            made[function.__name__] = compiled(copy, inline=function is not self._function)
        found: Callable[..., Any] = made[self._function.__name__]
        return found


class _NotCachedError(Exception):
    """The cache on disk has no machine code for these arguments."""
