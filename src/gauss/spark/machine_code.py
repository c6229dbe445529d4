"""Loads numba's compiler support before a fork, which saves each worker half a second."""

from __future__ import annotations

import numba

numba.njit("int64(int64)")(lambda number: number)  # the first compiled function loads what any other may call
