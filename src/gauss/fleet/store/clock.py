"""The clock of the store: Unix milliseconds by the database, never by the machine that asks."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class now_ms(FunctionElement[int]):
    """The time at which the statement runs, not at which its transaction began."""

    type = sa.BigInteger()
    inherit_cache = True


@compiles(now_ms, "postgresql")
def _postgres(_element: Any, _compiler: Any, **_given: Any) -> str:
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"


@compiles(now_ms, "sqlite")
def _sqlite(_element: Any, _compiler: Any, **_given: Any) -> str:
    return "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
