"""Functions as machine code, for loops over bytes that no library has; only who needs one loads numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

COUNTED = False
"""Whether machine code counts references to its arrays: their caller holds them, and makes them too. Counting at every
call of one function by another took half the time of the walks."""


def compiled(function: _Function) -> _Function:
    """The same function, compiled when it is first called and kept on disk; other threads run beside it."""
    import numba

    made: _Function = numba.njit(cache=True, nogil=True, _nrt=COUNTED)(function)
    return made
