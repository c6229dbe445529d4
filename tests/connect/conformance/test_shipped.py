"""The built-in connectors pass the conformance kit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connect.conformance.kit_runs import failures, passed, run_kit
from gauss.clients.embedded import EmbeddedServer, ensure
from gauss.connect.conformance.case import Role, Status
from gauss.connect.conformance.settings import KitSettings

MODULES = Path(__file__).parents[3] / "sdk" / "modules"
pytestmark = pytest.mark.fault


@pytest.mark.parametrize("role", list(Role))
def test_file_connector_passes_every_case(tmp_path: Path, role: Role) -> None:
    config = {"path": str(tmp_path / "data")}
    results = run_kit("file", KitSettings(source=config, destination=config, kills=1), role)
    assert failures(results) == {}
    wanted = {"crash.incremental", "read.snapshot", "parts.one_snapshot", "incremental.positions"}
    if role is Role.DESTINATION:
        wanted = {"crash.append", "crash.replace", "fence.replace", "evolution.new_column.add", "letters.dlq"}
    assert wanted <= passed(results)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with ensure("postgres", tmp_path_factory.mktemp("postgres")) as made:
        yield made


@pytest.mark.parametrize("role", list(Role))
def test_postgres_connector_passes_every_case(server: EmbeddedServer, role: Role) -> None:
    config = {"dsn": server.endpoint.url}
    results = run_kit("postgres", KitSettings(source=config, destination=config, kills=1), role)
    assert failures(results) == {}
    wanted = {"crash.incremental", "incremental.ties", "parts.one_snapshot", "spec.no_secrets", "errors.wrong_password"}
    wanted |= {"opaque.rows", "opaque.batches"}
    if role is Role.DESTINATION:
        wanted = {"crash.append", "crash.replace", "commit.unknown", "fence.incremental", "write.upsert_order"}
        wanted |= {"compression.lz4", "compression.zstd", "opaque.rows", "opaque.column_order", "opaque.retry"}
    assert wanted <= passed(results)


def test_clickhouse_connector_passes_every_case(tmp_path: Path) -> None:
    with ensure("clickhouse", tmp_path) as server:
        given = KitSettings(destination={"dsn": server.endpoint.url}, verify="helpers.clickhouse_kit:verify", kills=1)
        # Types and edge values are in the tests of the destination, which need no sync for each of them.
        results = run_kit(
            "clickhouse", given, Role.DESTINATION, only=lambda name: not name.startswith(("write.type.", "write.edge."))
        )
    assert failures(results) == {}
    wanted = {"crash.append", "crash.replace", "commit.unknown", "fence.incremental", "cdc.upsert", "compression.zstd"}
    assert wanted <= passed(results)


@pytest.mark.parametrize(
    ("module", "role", "config"),
    [
        ("numbers", Role.SOURCE, {"rows": 300, "batch_rows": 20}),
        ("counter", Role.SOURCE, {"rows": 300, "batch_rows": 20}),
        ("totals", Role.DESTINATION, {}),
    ],
    ids=["numbers", "counter", "totals"],
)
def test_sample_module_passes_every_case(module: str, role: Role, config: dict[str, Any]) -> None:
    results = run_kit(str(MODULES / f"{module}.wasm"), KitSettings(source=config, kills=1), role)
    assert failures(results) == {}
    # A guest of the kit reads no compressed batches: the host decompresses them.
    wanted = {"read.ipc_batches"} if role is Role.SOURCE else {"compression.lz4", "compression.zstd"}
    assert wanted | {"wasm.gate"} <= passed(results)
    untried = [each for each in results if each.status is Status.NOT_APPLICABLE]
    assert all(each.detail for each in untried)
