"""Publishes staging tables: inserts their rows into the target table exactly once.

The rows are inserted in chunks. A chunk becomes one block of one partition, so it is there whole or not at all. The
target table numbers its blocks and keeps the numbers when it merges them (`enable_block_number_column`), so that
`settle` can find out which chunks are there after a crash: those that have the same number of rows and the same sum of
hashes as a block behind the last one before the publication.

Nothing is under way while `settle` looks: it renames the staging table first, so that nobody who knows the old name can
begin, and waits for the statements that mention it.

Tokens for deduplication would not do. The rows of a batch are not the same when they are read again, so a token can't
be made of their place in the stream; and a server that dies at the wrong moment knows a token without its rows.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gauss.clients.clickhouse.errors import sorted_errors
from gauss.clients.clickhouse.live import describe
from gauss.clients.clickhouse.quote import identifier, literal, qualified
from gauss.clients.clickhouse.stages import TargetTable, drop_tables, identity, rows_of, take_over
from gauss.clients.clickhouse.sync_log import Publishing
from gauss.clients.clickhouse.write import PINNED
from gauss.model.errors import StorageError

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

CHUNK_ROWS, CHUNK_BYTES = 1_000_000, 256 << 20
"""Maximum size of a chunk, unless a single block of the staging table is larger."""


class Block(NamedTuple):
    """What was inserted at once into one partition of a table."""

    partition: str
    number: int
    rows: int
    hashes: int
    """The sum of the hashes of all rows, modulo 2^64."""


class Chunk(NamedTuple):
    """Some consecutive blocks of a staging table, all of one partition."""

    stage: str
    blocks: list[Block]

    @property
    def partition(self) -> str:
        return self.blocks[0].partition

    @property
    def content(self) -> tuple[str, int, int]:
        """The same for the block that the chunk becomes in the target table."""
        hashes = sum(each.hashes for each in self.blocks) % 2**64
        return self.partition, sum(each.rows for each in self.blocks), hashes


def plan_publishing(client: Client, target: TargetTable, stages: list[str], rows: int) -> Publishing:
    """What has to be known before the first row is published."""
    parts = "FROM system.parts WHERE active AND database = {database:String}"
    ((size,),) = rows_of(
        client,
        f"SELECT sum(data_uncompressed_bytes) {parts} AND has({{stages:Array(String)}}, table)",
        database=target.database,
        stages=stages,
    )
    floors = rows_of(
        client,
        f"SELECT partition_id, max(max_block_number) {parts} AND table = {{table:String}} GROUP BY partition_id",
        database=target.database,
        table=target.name,
    )
    chunk_rows = max(min(CHUNK_ROWS, CHUNK_BYTES * rows // max(size, 1)), 1)
    # Blocks that a failed statement has numbered are in no part; numbers only grow, so a low floor does no harm.
    found = {str(partition): max(int(block), 0) for partition, block in floors}
    return Publishing(stages, rows, chunk_rows, identity(client, target.database, target.name), found)


def publish(client: Client, target: TargetTable, publishing: Publishing) -> None:
    """Inserts all rows of the staging tables and drops these. Not to be repeated: see `settle`."""
    for stage in publishing.stages:
        for chunk in _chunks(client, target, stage, publishing.chunk_rows, hashed=False):
            _insert(client, target, chunk)
    drop_tables(client, target.database, publishing.stages)


def settle(client: Client, target: TargetTable, publishing: Publishing) -> None:
    """Publishes what was not yet published, whatever became of earlier attempts, and drops the staging tables. One that
    does not exist was published before."""
    stages = take_over(client, target.database, publishing.stages)
    if not stages:
        return
    for chunk in _absent(client, target, stages, publishing):
        _insert(client, target, chunk)
    if lost := _absent(client, target, stages, publishing):
        rows = sum(each.rows for chunk in lost for each in chunk.blocks)
        raise StorageError(
            f"{rows} rows that were just inserted into {target.sql} can't be found there",
            hint=f"they are kept in {', '.join(stages)}: see whether somebody else changes the table meanwhile",
        )
    drop_tables(client, target.database, stages)


def _absent(client: Client, target: TargetTable, stages: Sequence[str], publishing: Publishing) -> list[Chunk]:
    """The chunks that the target table lacks."""
    chunks = [chunk for stage in stages for chunk in _chunks(client, target, stage, publishing.chunk_rows, hashed=True)]
    same = identity(client, target.database, target.name) == publishing.table
    known = publishing.floors if same else {}
    floors = {chunk.partition: known.get(chunk.partition, -1) for chunk in chunks}
    there = _blocks(client, target.sql, _columns(client, target, stages[0]), floors) if floors else []
    present = Counter((each.partition, each.rows, each.hashes) for each in there)
    absent: list[Chunk] = []
    for chunk in chunks:
        # Of equal chunks, as many are there as there are equal blocks.
        present[chunk.content] -= 1
        if present[chunk.content] < 0:
            absent.append(chunk)
    return absent


def _chunks(client: Client, target: TargetTable, stage: str, most: int, *, hashed: bool) -> Iterable[Chunk]:
    """The rows of a staging table in chunks; always the same ones."""
    blocks: list[Block] = []
    columns = _columns(client, target, stage) if hashed else ()
    for block in _blocks(client, qualified(stage, target.database), columns, {}):
        full = blocks and sum(each.rows for each in blocks) + block.rows > most
        if full or (blocks and blocks[0].partition != block.partition):
            yield Chunk(stage, blocks)
            blocks = []
        blocks.append(block)
    if blocks:
        yield Chunk(stage, blocks)


def _blocks(client: Client, table: str, columns: Sequence[str], floors: Mapping[str, int]) -> list[Block]:
    """The blocks of a table, or of some partitions behind their floors, with hashes of the columns, if there are any.
    Hashes are made of text, which does not change when a column is made nullable."""
    text = f"formatRowNoNewline('TabSeparated', {', '.join(map(identifier, columns))})"
    hashes = f"sum(cityHash64({text}))" if columns else "0"
    behind = [f"(_partition_id = {literal(each)} AND _block_number > {floor})" for each, floor in floors.items()]
    where = f" WHERE {' OR '.join(behind)}" if floors else ""
    return [
        Block(str(partition), int(number), int(rows), int(sum_))
        for partition, number, rows, sum_ in rows_of(
            client,
            f"SELECT _partition_id, _block_number, count(), {hashes} FROM {table}{where}"
            " GROUP BY _partition_id, _block_number ORDER BY _partition_id, _block_number",
        )
    ]


def _columns(client: Client, target: TargetTable, stage: str) -> list[str]:
    """The columns that are moved: the target table may have got others since."""
    found = describe(client, stage, target.database)
    names = {each.name for each in found.columns} if found is not None else set()
    return [name for name in target.columns if name in names]


def _insert(client: Client, target: TargetTable, chunk: Chunk) -> None:
    names = ", ".join(map(identifier, _columns(client, target, chunk.stage)))
    first, last = chunk.blocks[0], chunk.blocks[-1]
    statement = (
        f"INSERT INTO {target.sql} ({names}) SELECT {names} FROM {qualified(chunk.stage, target.database)}"
        f" WHERE _partition_id = {literal(first.partition)} AND _block_number BETWEEN {first.number} AND {last.number}"
    )
    # Rows that equal earlier ones would vanish without a token of their own, and the driver may send a request twice.
    token = uuid.uuid4().hex
    with sorted_errors():
        client.command(statement, settings={**PINNED, "max_insert_threads": 1, "insert_deduplication_token": token})
