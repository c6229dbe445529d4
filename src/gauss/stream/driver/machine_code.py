"""numba, warmed up: whoever is forked from a process that imported this only looks its machine code up.

By itself every worker would spend half a second on it, beside the records that it decodes more slowly meanwhile.
"""

from __future__ import annotations

import numba

numba.njit("int64(int64)")(lambda number: number)  # the first function of all loads what any function may call
