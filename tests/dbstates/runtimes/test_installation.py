"""Installations of Postgres on this machine, which may be upgraded while an engine runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gauss.dbstates.runtimes.process import ProcessRuntime
from gauss.dbstates.store.metadata import Metadata


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[ProcessRuntime]:
    metadata = Metadata(tmp_path / "metadata.db")
    found = ProcessRuntime(metadata, "store")
    yield found
    found.forget_others(set())
    metadata.close()


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Programs that only say their version: what is read of an installation."""
    folder = tmp_path / "pg" / "bin"
    folder.mkdir(parents=True)
    (tmp_path / "pg" / "share" / "extension").mkdir(parents=True)
    install(folder, "17.1")
    return folder


def install(folder: Path, version: str) -> None:
    for name in ("postgres", "initdb"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version}'\n")
        (folder / name).chmod(0o755)


def test_an_upgraded_server_is_another_build(runtime: ProcessRuntime, programs: Path) -> None:
    first = runtime.resolve(str(programs))
    assert runtime.resolve(str(programs)) is first
    install(programs, "17.2")
    again = runtime.resolve(str(programs))
    assert (first.version, again.version) == ("17.1", "17.2")
    assert first.base != again.base


def test_extensions_that_are_installed_upgraded_and_removed_are_seen(runtime: ProcessRuntime, programs: Path) -> None:
    control = programs.parent / "share" / "extension" / "vector.control"
    for version in ("0.7.0", "0.7.1"):
        control.write_text(f"default_version = '{version}'\n")
        assert runtime.resolve(str(programs)).extensions == {"vector": version}
    control.unlink()
    assert runtime.resolve(str(programs)).extensions == {}


def test_servers_in_containers_are_no_processes_to_keep(runtime: ProcessRuntime) -> None:
    assert runtime.end_leftovers({"3f9c01ab" * 8, "12-34-boot"}) == []
