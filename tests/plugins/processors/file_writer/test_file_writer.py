"""file-writer: a passthrough whose target must be a file topic."""

from __future__ import annotations

from pathlib import Path

import pytest

from gauss.config.check import check
from gauss.contracts.processor import ProcessorSpec
from gauss.registry import spec
from helpers.processors import faults_of


def test_any_target_but_a_file_is_a_fault() -> None:
    assert faults_of("file-writer", target="file") == []
    assert 'found "memory": use passthrough' in faults_of("file-writer", target="memory")[0]


def test_it_runs_in_the_engine_as_passthrough_does() -> None:
    writer, through = spec(ProcessorSpec, "file-writer"), spec(ProcessorSpec, "passthrough")
    assert (writer.where, writer.engine_implementation) == (through.where, through.engine_implementation)
    assert not writer.active and not writer.stateful


PIPELINE = """
[[topics]]
name = "quotes"
storage = "memory"

[[topics]]
name = "archive"
storage = "{storage}"

[[processors]]
name = "writer"
plugin = "file-writer"
source = {{ topic = "quotes", read = "offset" }}
target = {{ topic = "archive" }}
"""


@pytest.mark.parametrize(("storage", "found"), [("file", 0), ("memory", 1)])
def test_the_check_sees_the_targets_storage(tmp_path: Path, storage: str, found: int) -> None:
    config = tmp_path / "p.toml"
    config.write_text(PIPELINE.format(storage=storage))
    assert len([fault for fault in check(config).errors if 'storage = "file"' in fault.message]) == found
