"""Change data capture: inserts, updates, deletes, and a run without changes."""

from __future__ import annotations

import pyarrow as pa

from gauss.connect.conformance.bench import Bench
from gauss.connect.conformance.case import CASES, CaseFailed, NotApplicable, check
from gauss.connect.conformance.collector import collected
from gauss.connect.conformance.compare import difference
from gauss.connect.conformance.datasets import plain
from gauss.connect.conformance.destination_bench import DestinationBench
from gauss.connect.conformance.generator import ID, write_rows
from gauss.connect.conformance.kit_sync import KitSync, succeeded
from gauss.connect.conformance.source_bench import CANT_FILL, SourceBench
from gauss.contracts.connector.lifecycle import Feature
from gauss.contracts.connector.stream import OPERATION, Operation, SyncMode


def _needs_cdc(bench: Bench) -> None:
    if Feature.CDC not in bench.info().features:
        raise NotApplicable("no change data capture (feature cdc)")


def _changes(rows: pa.Table, operation: Operation) -> pa.Table:
    return rows.append_column(OPERATION, pa.array([str(operation)] * rows.num_rows, pa.string()))


def _deleted(ids: list[int]) -> pa.Table:
    columns = {each.name: pa.nulls(len(ids), each.type) for each in plain(0).schema}
    return _changes(pa.table({**columns, ID: pa.array(ids, pa.int64())}), Operation.DELETE)


@CASES.source(
    "cdc.changes", "After a snapshot, inserts, updates and deletes are read once; a run without changes is empty."
)
def reads_changes(bench: SourceBench) -> None:
    _needs_cdc(bench)
    stream = bench.fill(name := bench.stream_name("changes"), plain(20))
    if SyncMode.CDC not in bench.entry(stream).supported_sync_modes:
        raise NotApplicable(f"{stream} can't be read by cdc")
    folder, data_dir = bench.folder(), bench.folder()
    seen = 0

    def run() -> pa.Table:
        nonlocal seen
        entry = {"name": stream, "mode": "cdc", "write": "append"}
        sync = bench.sync(bench.target.definition(), bench.collector(folder), [entry], data_dir)
        succeeded(bench.run(sync))
        found = collected(folder, stream, full=False)
        new, seen = found.slice(seen), found.num_rows
        return new

    text = difference(plain(20), run())
    check(not text, f"the snapshot: {text}")
    bench.fill(name, plain(5, first=21))
    bench.fill(name, plain(3, word="new"))
    deletes = _delete(bench, name, [7])
    changes = run()
    found = sorted(zip(changes.column(OPERATION).to_pylist(), changes.column(ID).to_pylist(), strict=True))
    wanted = [(Operation.INSERT, id) for id in range(21, 26)] + [(Operation.UPDATE, id) for id in range(1, 4)]
    wanted += [(Operation.DELETE, id) for id in deletes]
    check(found == sorted((str(each), id) for each, id in wanted), f"changes {found}")
    idle = run().num_rows
    check(not idle, f"a run without changes read {idle} rows")


def _delete(bench: SourceBench, stream: str, ids: list[int]) -> list[int]:
    """Deletes rows by the destination of the same name; returns those that were."""
    if bench.settings.fill is not None:
        return []
    path = bench.folder() / "rows.arrow"
    write_rows(_deleted(ids), path)
    entry = {"name": stream, "mode": "cdc", "write": "upsert", "key": [ID]}
    partner = bench.partner(CANT_FILL)
    sync = bench.sync(bench.generator({stream: path}), partner.definition(), [entry], name=bench.stream_name("delete"))
    return [] if bench.run(sync).error is not None else ids


@CASES.destination("cdc.upsert", "upsert applies inserts, updates and deletes in their order, and stores no _op.")
def applies_changes(bench: DestinationBench) -> None:
    _needs_cdc(bench)
    bench.needs_mode("upsert")
    bench.needs_reading()
    stream = bench.stream_name("cdc")
    rows = pa.concat_tables(
        [
            _changes(plain(10), Operation.INSERT),
            _changes(plain(2, first=3, word="new"), Operation.UPDATE),
            _deleted([5, 6]),
            _changes(plain(1, first=6, word="again"), Operation.INSERT),
        ]
    )
    for batch_rows in (100, 4):
        stream = bench.stream_name("cdc")
        sync = _cdc_sync(bench, rows, stream, batch_rows)
        succeeded(bench.run(sync))
        found = bench.read_back(stream)
        check(OPERATION not in found.column_names, f"the table has the column {OPERATION}")
        names = {3: "new 3", 4: "new 4", 6: "again 6"}
        wanted = plain(10).filter(pa.array([id != 5 for id in range(1, 11)]))
        texts = [names.get(id, f"row {id}") for id in wanted.column(ID).to_pylist()]
        if text := difference(wanted.set_column(1, "name", pa.array(texts, pa.string())), found):
            raise CaseFailed(f"{batch_rows} changes in a batch: {text}")


def _cdc_sync(bench: DestinationBench, rows: pa.Table, stream: str, batch_rows: int) -> KitSync:
    return bench.prepare(rows, stream, mode="cdc", write="upsert", generator={"batch_rows": batch_rows})
