"""Schema evolution: every policy, as the host enforces it on this destination."""

from __future__ import annotations

import pyarrow as pa

from gauss.connect.conformance.case import CASES, CaseFailed, Role, check
from gauss.connect.conformance.compare import difference
from gauss.connect.conformance.datasets import plain
from gauss.connect.conformance.destination_bench import DestinationBench
from gauss.connect.conformance.kit_sync import described, succeeded
from gauss.contracts.connector.errors import ErrorCategory

OLD, NEW = 20, 10
TOTAL = OLD + NEW


def _before() -> pa.Table:
    return plain(OLD).append_column("n", pa.array(range(OLD), pa.int64()))


def _after(column: pa.Array | None) -> pa.Table:
    """All rows, with `n` of the old ones as the table has it."""
    rows = plain(TOTAL)
    return rows if column is None else rows.append_column("n", column)


def _numbers(last: list[int | None]) -> pa.Array:
    return pa.array([*range(OLD), *last], pa.int64())


def _new_column(*, kept: bool) -> tuple[pa.Table, pa.Table]:
    extra = pa.array([f"x{row}" for row in range(TOTAL)], pa.string())
    sent = _after(_numbers(list(range(NEW)))).append_column("extra", extra)
    there = pa.array([None] * OLD + extra[OLD:].to_pylist(), pa.string())
    wanted = _after(_numbers(list(range(NEW))))
    return sent, wanted.append_column("extra", there) if kept else wanted


def _type_change(*, null: bool) -> tuple[pa.Table, pa.Table]:
    sent = plain(TOTAL).append_column("n", pa.array([str(row) for row in range(TOTAL)], pa.string()))
    return sent, _after(_numbers([None] * NEW if null else list(range(OLD, TOTAL))))


def _removed() -> tuple[pa.Table, pa.Table]:
    return plain(TOTAL), _after(_numbers([None] * NEW))


POLICIES: dict[tuple[str, str], tuple[str, tuple[pa.Table, pa.Table] | None]] = {
    ("new_column", "add"): ("a new column is added, NULL in older rows", _new_column(kept=True)),
    ("new_column", "ignore"): ("a new column is left out", _new_column(kept=False)),
    ("new_column", "fail"): ("a new column ends the stream with a schema error", None),
    ("removed_column", "ignore"): ("a removed column stays, NULL in newer rows", _removed()),
    ("removed_column", "fail"): ("a removed column ends the stream with a schema error", None),
    ("type_change", "coerce"): ("values of a changed type are converted to the table's", _type_change(null=False)),
    ("type_change", "null"): ("values of a changed type become NULL", _type_change(null=True)),
    ("type_change", "fail"): ("a changed type ends the stream with a schema error", None),
    ("nullability_change", "allow"): ("NULL in a column that had none is written", None),
    ("nullability_change", "fail"): ("NULL in a column that had none ends the stream with a schema error", None),
}
_SENT = {
    "new_column": _new_column(kept=True)[0],
    "removed_column": _removed()[0],
    "type_change": _type_change(null=True)[0],
}


def _strict(rows: pa.Table, nullable: bool) -> pa.Table:
    """The same with `n` declared as NOT NULL, or not."""
    place = rows.schema.get_field_index("n")
    return rows.cast(rows.schema.set(place, rows.schema.field("n").with_nullable(nullable)))


def _add(policy: str, value: str, expected: str, tables: tuple[pa.Table, pa.Table] | None) -> None:
    def run(bench: DestinationBench) -> None:
        bench.needs_managed()
        bench.needs_reading()
        stream = bench.stream_name(policy)
        rows, wanted = tables or (_SENT.get(policy, _before()), _before())
        first = _before()
        if policy == "nullability_change":
            first = _strict(first, nullable=False)
            rows = _strict(_after(_numbers([None] * NEW)), nullable=True)
            wanted = rows if value == "allow" else wanted
        bench.write(first, stream)
        policies = {"schema_evolution": {policy: value}}
        result = bench.try_write(rows, stream, policies=policies).result
        if value == "fail":
            error = result.error
            if error is None:
                raise CaseFailed("the run succeeded")
            check(error.category is ErrorCategory.SCHEMA, described(error))
            wanted = _before()
        else:
            succeeded(result)
        found = bench.read_back(stream)
        text = difference(wanted, found)
        check(not text, text)
        if value == "ignore" and policy == "new_column":
            check("extra" not in found.column_names, "the table has the new column")

    CASES.add(
        Role.DESTINATION,
        f"evolution.{policy}.{value}",
        f"{expected[0].upper()}{expected[1:]}.",
        run,
        ("write.next_run",),
    )


for (_policy, _value), (_expected, _tables) in POLICIES.items():
    _add(_policy, _value, _expected, _tables)
