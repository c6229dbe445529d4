"""Connectors with one fault each: the conformance kit fails the expected cases and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connect.conformance import encoded
from connect.conformance.kit_runs import failures, needed_by, reference_settings, run_kit
from gauss.connect.conformance.case import Role
from helpers.connectors import module

SOURCES: dict[str, tuple[str, ...]] = {
    "SourceWrongProtocol": ("lifecycle.protocol_version",),
    "SourceClosesOnce": ("lifecycle.close_twice",),
    "SourceLeaksPassword": ("spec.no_secrets",),
    "SourceWrongCategory": ("errors.bad_settings",),
    "SourceIgnoresStop": ("stop.force",),
    "ChangesCatalog": ("lifecycle.discover_twice",),
    "EmitsEmptyBatch": ("read.no_empty_batches",),
    "IgnoresBatchSize": ("read.batch_size",),
    "CheckpointsAhead": ("read.checkpoint_ids",),
    "BreaksCompressed": ("read.ipc_batches",),
    "HidesSizeByCompression": ("read.ipc_batches",),
    "EmitsOpaqueUnasked": ("read.agreed_encoding",),
    "LosesOpaqueRows": ("opaque.rows",),
    "MiscountsOpaque": ("opaque.batches",),
    "LosesLastRow": ("read.full_refresh",),
    "ReadsDifferently": ("read.twice",),
    "MiscountsRead": ("read.summary",),
    "EmitsAfterReturn": ("read.no_calls_after_return",),
    "ReadsTwoStates": ("read.snapshot",),
    "ReadsNullAsEmpty": ("read.null_row",),
    "TruncatesRead": ("read.edge.long_text",),
    "FailsAtLargeRecord": ("read.large_record",),
    "EndsWithoutCheckpoint": ("incremental.final_checkpoint",),
    "StartsAgain": ("incremental.resumes",),
    "SkipsARow": ("incremental.positions", "incremental.stop_and_go", "incremental.new_rows"),
    "SwallowsTies": ("incremental.ties",),
    "RereadsNullCursors": ("incremental.null_cursor",),
    "TakesAnyCursor": ("state.wrong_type",),
    "PartsSeeNewRows": ("parts.one_snapshot",),
}
DESTINATIONS: dict[str, tuple[str, ...]] = {
    "DestinationWrongProtocol": ("lifecycle.protocol_version",),
    "DestinationClosesOnce": ("lifecycle.close_twice",),
    "DestinationLeaksPassword": ("spec.no_secrets",),
    "DestinationWrongCategory": ("errors.bad_settings",),
    "DestinationIgnoresStop": ("stop.force",),
    "EndsEarly": ("write.rows",),
    "CheckpointsBeforeCommit": ("write.checkpoint_after_commit",),
    "ForgetsLastCheckpoint": ("write.checkpoint_ids",),
    "MiscountsWritten": ("write.summary",),
    "CreatesWhenAsked": ("write.dry_run",),
    "ForgetsCursor": ("write.watermark", "write.next_run", "write.retry"),
    "CommitsEveryBatch": ("write.retry",),
    "WaitsForCheckpoint": ("write.no_checkpoints",),
    "IgnoresReplace": ("write.replace",),
    "EmptiesFirst": ("write.replace_is_atomic",),
    "NeverUpdates": ("write.upsert",),
    "KeepsFirstOfKey": ("write.upsert_order",),
    "WritesKeylessRows": ("letters.no_key",),
    "WritesNullAsEmpty": ("write.null_row",),
    "TruncatesWritten": ("write.edge.long_text", "write.large_record"),
    "NeverAddsColumns": ("evolution.new_column.add",),
    "TakesOneBlock": ("compression.lz4", "compression.zstd"),
    "WritesFirstOpaque": ("opaque.rows",),
    "TakesColumnsByPlace": ("opaque.column_order",),
    "CommitsOpaqueAtOnce": ("opaque.retry",),
    "DoesNotFence": ("fence.incremental", "fence.replace", "fence.older_prepare"),
}


def _looked_at(name: str, named: tuple[str, ...], role: Role) -> bool:
    """The cases of the fault, those before them, and all of the same subject but the many of types."""
    if any(name in needed_by(each, role) for each in named):
        return True
    subject = named[0].partition(".")[0]
    return name.startswith(f"{subject}.") and ".type." not in name and ".edge." not in name


@pytest.mark.parametrize(
    ("fault", "named", "role"),
    [
        *((fault, named, Role.SOURCE) for fault, named in SOURCES.items()),
        *((fault, named, Role.DESTINATION) for fault, named in DESTINATIONS.items()),
    ],
    ids=[*SOURCES, *DESTINATIONS],
)
def test_fault_fails_its_expected_cases(tmp_path: Path, fault: str, named: tuple[str, ...], role: Role) -> None:
    settings = reference_settings(tmp_path, kills=0)
    place = "encoded" if hasattr(encoded, fault) else "faults"
    target = f"connect.conformance.{place}:{fault}"
    found = failures(run_kit(target, settings, role, only=lambda name: _looked_at(name, named, role)))
    assert set(found) == {f"{role}: {each}" for each in named}, found
    assert all(found.values())


def test_failed_case_reports_expected_and_found(tmp_path: Path) -> None:
    settings = reference_settings(tmp_path, kills=0)
    target = "connect.conformance.faults:IgnoresReplace"
    found = run_kit(target, settings, only=lambda name: name in needed_by("write.replace", Role.DESTINATION))[-1]
    assert found.to_dict()["expected"] == "replace leaves the rows of the last full refresh only."
    assert "20 of 30 rows duplicated" in found.detail or "unexpected" in found.detail


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"without": ("rb_close",)}, "does not export rb_close"),
        ({"without": ("rb_open",), "more": '(func (export "rb_init"))'}, "deprecated protocol v0"),
        ({"without": ("memory",)}, "does not export memory"),
    ],
    ids=["missing export", "old exports", "no memory"],
)
def test_module_with_invalid_exports_fails_the_gate_case(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = tmp_path / "strange.wasm"
    path.write_bytes(module(**change))
    results = run_kit(str(path), reference_settings(tmp_path, fill=None, verify=None, kills=0))
    found = failures(results)
    assert list(found) == ["source: wasm.gate"] and words in found["source: wasm.gate"]
