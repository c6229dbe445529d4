"""What every backend of the state file system does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gauss.dbstates.statefs.btrfs import Btrfs
from gauss.dbstates.statefs.exclusive import disk_use, union_bytes
from gauss.dbstates.statefs.files import CopiedFiles, SharedFiles
from gauss.dbstates.statefs.statefs import StateFS, choose, partial, probe, validate
from gauss.model.errors import ConfigError, DiskFull, StorageError
from helpers.dbstates import btrfs
from helpers.disks import small_file_system

BACKENDS: dict[str, Callable[[], StateFS]] = {"btrfs": Btrfs, "reflink": SharedFiles, "copy": CopiedFiles}


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with btrfs(tmp_path_factory.mktemp("conformance"), "512M") as found:
        yield found


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> StateFS:
    return BACKENDS[request.param]()


@pytest.fixture
def folder(backend: StateFS, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder that the backend works in: both sharing ones on btrfs."""
    if backend.name == "copy":
        return tmp_path
    found: Path = request.getfixturevalue("mount") / f"{backend.name}-{os.urandom(4).hex()}"
    found.mkdir()
    return found


@pytest.fixture
def source(backend: StateFS, folder: Path) -> Path:
    made = folder / "source"
    backend.create(made)
    (made / "PG_VERSION").write_text("18\n")
    (made / "base").mkdir(mode=0o700)
    (made / "base" / "1").write_bytes(os.urandom(1 << 20))
    (made / "link").symlink_to("base")
    if os.geteuid() == 0:
        os.chown(made / "base" / "1", 65534, 65534)
    return made


def content(path: Path) -> dict[str, tuple[bytes, int, int]]:
    return {
        str(file.relative_to(path)): (file.read_bytes(), file.stat().st_mode, file.stat().st_uid)
        for file in path.rglob("*")
        if file.is_file() and not file.is_symlink()
    }


def test_a_snapshot_has_content_mode_and_owner(backend: StateFS, folder: Path, source: Path) -> None:
    backend.snapshot(source, folder / "state")
    assert content(folder / "state") == content(source)
    assert (folder / "state" / "link").readlink() == Path("base")


def test_a_snapshot_does_not_follow_its_source(backend: StateFS, folder: Path, source: Path) -> None:
    before = content(source)
    backend.snapshot(source, folder / "state")
    (source / "base" / "1").write_bytes(b"other")
    (source / "new").touch()
    assert content(folder / "state") == before


def test_clones_are_independent(backend: StateFS, folder: Path, source: Path) -> None:
    backend.snapshot(source, folder / "state")
    before = content(folder / "state")
    backend.clone(folder / "state", folder / "a")
    backend.clone(folder / "state", folder / "b")
    (folder / "a" / "base" / "1").write_bytes(b"changed")
    (folder / "a" / "PG_VERSION").unlink()
    assert content(folder / "b") == before == content(folder / "state")


def test_a_snapshot_has_no_files_of_a_running_server(backend: StateFS, folder: Path, source: Path) -> None:
    (source / "postmaster.pid").touch()
    (source / "postmaster.opts").touch()
    backend.snapshot(source, folder / "state")
    assert not list((folder / "state").glob("postmaster.*"))
    validate(folder / "state")


def test_a_partial_copy_does_not_hinder_the_next(backend: StateFS, folder: Path, source: Path) -> None:
    partial(folder / "state").mkdir()
    (partial(folder / "state") / "half").touch()
    backend.snapshot(source, folder / "state")
    assert not (folder / "state" / "half").exists()
    assert not partial(folder / "state").exists()


def test_removal_is_idempotent_and_removes_sealed_states(backend: StateFS, folder: Path, source: Path) -> None:
    backend.snapshot(source, folder / "state")
    for _ in range(2):
        backend.remove_path(folder / "state")
        backend.remove_path(source)
    assert list(folder.iterdir()) == []


def test_a_folder_that_holds_copies_is_removed(backend: StateFS, folder: Path, source: Path) -> None:
    (folder / "instance").mkdir()
    backend.clone(source, folder / "instance" / "data")
    backend.remove_path(folder / "instance")
    assert not (folder / "instance").exists()


def test_a_missing_source_leaves_nothing(backend: StateFS, folder: Path) -> None:
    with pytest.raises(StorageError):
        backend.snapshot(folder / "missing", folder / "state")
    assert list(folder.iterdir()) == []


def test_the_probe_accepts_the_backend_and_leaves_nothing(backend: StateFS, folder: Path) -> None:
    assert probe(backend, folder) == ""
    assert list(folder.iterdir()) == []


def test_shared_blocks_count_once(backend: StateFS, folder: Path, source: Path) -> None:
    before = disk_use(source)
    assert before.total == before.exclusive >= 1 << 20
    backend.snapshot(source, folder / "state")
    subprocess.run(["sync", "-f", str(folder)], check=True)
    found = disk_use(folder / "state")
    assert found.total >= 1 << 20
    assert found.exclusive >= 1 << 20 if backend.name == "copy" else found.exclusive < 1 << 16
    both = union_bytes([*found.shared, *disk_use(source).shared])
    assert both == 0 if backend.name == "copy" else 1 << 20 <= both < 5 << 18


def test_a_sealed_btrfs_state_is_read_only(mount: Path) -> None:
    backend = Btrfs()
    place = mount / "sealed"
    place.mkdir()
    backend.create(place / "source")
    backend.snapshot(place / "source", place / "state")
    with pytest.raises(OSError, match="Read-only"):
        (place / "state" / "file").touch()


@pytest.mark.parametrize("before", [*BACKENDS])
@pytest.mark.parametrize("after", [*BACKENDS])
def test_states_are_used_and_removed_when_the_backend_was_changed(mount: Path, before: str, after: str) -> None:
    place = mount / f"{before}-{after}"
    place.mkdir()
    old, new = BACKENDS[before](), BACKENDS[after]()
    old.create(place / "source")
    (place / "source" / "PG_VERSION").write_text("18\n")
    old.snapshot(place / "source", place / "state")
    new.clone(place / "state", place / "instance")
    (place / "instance" / "file").touch()
    new.snapshot(place / "instance", place / "next")
    assert sorted(path.name for path in (place / "next").iterdir()) == ["PG_VERSION", "file"]
    for name in ("state", "next", "instance", "source"):
        new.remove_path(place / name)
    assert list(place.iterdir()) == []


def test_the_best_backend_is_chosen(mount: Path, tmp_path: Path) -> None:
    assert choose(mount, "auto").name == "btrfs"
    assert choose(tmp_path, "auto").name in ("copy", "reflink", "btrfs")
    assert choose(mount, "reflink").name == "reflink"


def test_a_backend_that_does_not_work_is_refused(tmp_path: Path) -> None:
    with ExitStack() as stack:
        small = stack.enter_context(small_file_system(tmp_path / "small", "8m"))
        with pytest.raises(ConfigError, match=r"snapshot.backend.*btrfs"):
            choose(small, "btrfs")
        assert choose(small, "auto").name == "copy"


def test_a_full_disk_leaves_no_state(tmp_path: Path) -> None:
    with small_file_system(tmp_path / "small", "6m") as small:
        backend = CopiedFiles()
        backend.create(small / "source")
        (small / "source" / "PG_VERSION").write_bytes(os.urandom(4 << 20))
        with pytest.raises(DiskFull):
            backend.snapshot(small / "source", small / "state")
        assert [path.name for path in small.iterdir()] == ["source"]


@pytest.mark.parametrize("present", [["postmaster.pid", "PG_VERSION"], []])
def test_a_dirty_directory_is_not_valid(tmp_path: Path, present: list[str]) -> None:
    for name in present:
        (tmp_path / name).touch()
    with pytest.raises(StorageError):
        validate(tmp_path)
