"""Functions as machine code, for loops over bytes that no library has; only who needs one loads numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """The same function, compiled when it is first called and kept on disk; other threads run beside it."""
    made: _Function = numba.njit(cache=True, nogil=True)(function)
    return made
