"""Just-in-time compilation of loops over bytes that no library has, by numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function, *, inline: bool = False) -> _Function:
    """The same function as machine code: compiled when first called, cached on disk, running without the GIL.

    `inline` copies it into each compiled caller, because a call would pass every field of every array.
    """
    import numba  # costs a second and 120 MB, which only a process that needs it should pay

    # `_nrt`, a private flag of numba, turns off reference counting of arrays in machine code: the Python caller holds
    # every array for the length of the call. Counting at each call between functions took half the time of the walks.
    options = {"nogil": True, "error_model": "numpy", "forceinline": inline, "_nrt": False}
    made: _Function = numba.njit(cache=True, **options)(function)
    return made


def is_cached(function: Any, *arguments: Any) -> bool:
    """Whether the cache on disk holds the machine code of a `compiled` function for arguments of these types."""
    # numba has no public way to ask: a call compiles what the cache does not hold.
    signature = tuple(function.typeof_pyval(argument) for argument in arguments)
    return function._cache.load_overload(signature, function.targetctx) is not None
