"""The conformance kit on correct connectors: every case passes, or says why it was skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect.conformance.kit_runs import REFERENCE, failures, passed, reference_settings, run_kit
from gauss.connect.conformance.case import CASES, Role, Status

pytestmark = pytest.mark.fault

UNTRIED = {
    Role.SOURCE: {"wasm.gate", "spec.settings", "spec.registration", "read.projection", "cdc.changes"},
    Role.DESTINATION: {"wasm.gate", "spec.settings", "spec.registration", "commit.unknown", "cdc.upsert"},
}
"""What a class without a spec, server or CDC can't be tried on."""
OTHER_BATCHES = {"read.ipc_batches", "opaque.rows", "opaque.batches", "opaque.column_order", "opaque.retry"}
"""What needs batches that are compressed or opaque."""
NO_SERVER = {"errors.no_server", "errors.wrong_password", "errors.unsupported_mode"}


@pytest.mark.parametrize("name", ["CompressesByLz4", "CompressesByZstd"])
def test_source_that_compresses_its_batches_passes_every_case_of_reading(tmp_path: Path, name: str) -> None:
    def only(case: str) -> bool:
        return case.startswith(("lifecycle.", "read.")) and ".type." not in case and ".edge." not in case

    results = run_kit(f"connect.conformance.encoded:{name}", reference_settings(tmp_path), Role.SOURCE, only=only)
    assert failures(results) == {} and "read.ipc_batches" in passed(results)


@pytest.mark.parametrize("role", list(Role))
def test_connector_with_a_custom_encoding_passes_every_case_of_it(tmp_path: Path, role: Role) -> None:
    def only(case: str) -> bool:
        return case.startswith("opaque.") or case in ("read.full_refresh", "write.rows")

    results = run_kit("connect.conformance.encoded:RefOpaque", reference_settings(tmp_path), role, only=only)
    assert failures(results) == {}
    wanted = {case.name for case in CASES.all if case.role is role and case.name.startswith("opaque.")}
    assert wanted <= passed(results), [(each.case.name, each.detail) for each in results]


@pytest.mark.parametrize(
    ("role", "name"), [(Role.SOURCE, "RefSource"), (Role.DESTINATION, "RefDestination")], ids=["source", "destination"]
)
def test_connector_without_faults_passes_every_case(tmp_path: Path, role: Role, name: str) -> None:
    results = run_kit(f"{REFERENCE}:{name}", reference_settings(tmp_path, kills=3), role)
    assert failures(results) == {}
    untried = {each.case.name for each in results if each.status is Status.NOT_APPLICABLE}
    known = {case.name for case in CASES.all if case.role is role}
    assert untried == (UNTRIED[role] | NO_SERVER | OTHER_BATCHES) & known
    assert len(passed(results)) >= 80
    assert all(each.detail for each in results if each.status is Status.NOT_APPLICABLE)
