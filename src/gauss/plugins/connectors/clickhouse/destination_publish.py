"""The beginning and the end of a run: publishes what earlier runs have committed, and full refreshes.

A replaced table is built beside the old one, out of the staging tables of all partitions, and changes places with it by
EXCHANGE. An entry of the log names the new table by where its data is, so that a repeated `finish` sees whether the
exchange took place. A refresh that is appended is published like any other commit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gauss.clients.clickhouse.publish import plan_publishing, publish, settle
from gauss.clients.clickhouse.quote import qualified
from gauss.clients.clickhouse.stages import (
    attach,
    count_rows,
    create_twin,
    drop_tables,
    identity,
    run,
    tables_like,
    take_over,
)
from gauss.clients.clickhouse.sync_log import Entry, EntryKind, Publishing, SyncState
from gauss.contracts.connector.errors import fenced
from gauss.model.errors import Unavailable
from gauss.plugins.connectors.clickhouse.destination_errors import check_run
from gauss.plugins.connectors.clickhouse.destination_table import StreamTable
from gauss.plugins.connectors.clickhouse.destination_versions import newest_run

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client


def claim(client: Client, table: StreamTable, generation: int) -> SyncState:
    """Fences older runs; raises ConnectorError if a newer one has begun."""
    state = table.log.replay(client)
    # Not the generation alone: another sync, or this one by another name, may have written larger versions.
    number = max(generation, state.number + 1, newest_run(client, table) + 1)
    if not table.log.append(client, Entry(EntryKind.CLAIM, generation, id=number), state):
        raise fenced(table.stream.stream_name, generation, state.generation)
    return state


def drop_stages(client: Client, table: StreamTable, state: SyncState) -> None:
    """Drops what earlier runs have left, but for what they have committed."""
    kept = [stage for each in _unpublished(state) for stage in each.stages]
    for name in tables_like(client, table.database, table.stages):
        generation = name.removeprefix(table.stages).partition("_")[0]
        older = generation.isdigit() and int(generation) < state.generation
        if older and not any(name.startswith(stage) for stage in kept):
            drop_tables(client, table.database, [name])


def recover(client: Client, table: StreamTable, state: SyncState) -> None:
    """Publishes what earlier runs have committed."""
    for publishing in _unpublished(state):
        if any(tables_like(client, table.database, stage) for stage in publishing.stages):
            settle(client, table.target(client), publishing)


def _unpublished(state: SyncState) -> list[Publishing]:
    """What was committed, and may not be published."""
    entries = [each for each in state.heads.values() if each.kind is EntryKind.COMMIT]
    if state.publish is not None and not state.publish.publishing.replacement:
        entries.append(state.publish)
    return [each.publishing for each in entries if each.publishing.stages]


def finish(client: Client, table: StreamTable, generation: int) -> None:
    """Makes a full refresh visible. Idempotent; to be repeated after an unclear error."""
    state = table.log.replay(client)
    check_run(table.stream.stream_name, generation, state.generation)
    if state.is_finished:
        return
    heads = state.heads.values()
    done = [each.publishing for each in heads if each.kind is EntryKind.STAGE and state.is_current(each)]
    whole = Publishing([stage for each in done for stage in each.stages], sum(each.rows for each in done))
    if table.replaces:
        _replace(client, table, state, whole)
    else:
        _append(client, table, state, whole)
    _record(client, table, state, Entry(EntryKind.FINISH, generation))


def _append(client: Client, table: StreamTable, state: SyncState, whole: Publishing) -> None:
    target = table.target(client)
    if (begun := _begun(state)) is not None:
        settle(client, target, begun)
    elif whole.stages:
        planned = plan_publishing(client, target, whole.stages, whole.rows)
        _record(client, table, state, Entry(EntryKind.PUBLISH, state.generation, publishing=planned))
        publish(client, target, planned)


def _replace(client: Client, table: StreamTable, state: SyncState, whole: Publishing) -> None:
    successor = table.successor(state.generation)
    begun = _begun(state)
    if begun is None:
        _build(client, table, successor, whole)
        begun = replace(whole, replacement=identity(client, table.database, successor))
        _record(client, table, state, Entry(EntryKind.PUBLISH, state.generation, publishing=begun))
    # An exchange that is still under way would undo a second one: it knows the table by its old name only.
    for name in take_over(client, table.database, [successor]):
        if identity(client, table.database, table.name) != begun.replacement:
            run(client, f"EXCHANGE TABLES {table.sql} AND {qualified(name, table.database)}")
    if identity(client, table.database, table.name) != begun.replacement:
        raise Unavailable(f"{table.sql} was not replaced", hint="start the sync again")
    left = tables_like(client, table.database, successor)
    drop_tables(client, table.database, [*left, *begun.stages])


def _build(client: Client, table: StreamTable, successor: str, whole: Publishing) -> None:
    """Fills a new table with the rows of all staging tables."""
    drop_tables(client, table.database, tables_like(client, table.database, successor))
    create_twin(client, table.target(client), successor)
    for stage in whole.stages:
        attach(client, table.database, stage, successor)
    found = count_rows(client, table.database, [successor])
    if found != whole.rows:
        raise Unavailable(
            f"the new table for {table.sql} has {found} rows, expected {whole.rows}", hint="start the sync again"
        )


def _begun(state: SyncState) -> Publishing | None:
    """What this run was about to publish when it was interrupted."""
    found = state.publish
    return found.publishing if found is not None and state.is_current(found) else None


def _record(client: Client, table: StreamTable, state: SyncState, entry: Entry) -> None:
    table.log.append(client, entry, state)
    check_run(table.stream.stream_name, entry.generation, state.generation)
