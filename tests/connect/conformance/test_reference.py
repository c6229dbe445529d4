"""The kit on connectors that do everything right: every case passes, or says why it can't be tried."""

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
NO_SERVER = {"errors.no_server", "errors.wrong_password", "errors.unsupported_mode"}


@pytest.mark.parametrize(
    ("role", "name"), [(Role.SOURCE, "RefSource"), (Role.DESTINATION, "RefDestination")], ids=["source", "destination"]
)
def test_a_connector_without_faults_passes_every_case(tmp_path: Path, role: Role, name: str) -> None:
    results = run_kit(f"{REFERENCE}:{name}", reference_settings(tmp_path, kills=3), role)
    assert failures(results) == {}
    untried = {each.case.name for each in results if each.status is Status.NOT_APPLICABLE}
    assert untried == (UNTRIED[role] | NO_SERVER) & {case.name for case in CASES.all if case.role is role}
    assert len(passed(results)) >= 80
    assert all(each.detail for each in results if each.status is Status.NOT_APPLICABLE)
