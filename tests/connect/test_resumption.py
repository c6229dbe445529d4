"""Where runs begin after their state was lost, and a user has set the cursor."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gauss.config.syncs import SyncDef
from gauss.connect.cursor_edit import set_cursor
from gauss.connect.stream_job import StreamJob
from gauss.connect.sync import Sync
from gauss.contracts.connector.cursor import CursorValue


@pytest.fixture
def files(tmp_path: Path) -> Callable[[], Sync]:
    """Syncs from files to files that are appended to. The generation of their last run lies far above that of the next
    one, since its state was lost."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"n": 1}\n{"n": 2}\n')

    def make() -> Sync:
        sides = {role: {"connector": "file", "path": str(tmp_path / role)} for role in ("in", "out")}
        text = {"name": "files", "source": sides["in"], "destination": {**sides["out"], "format": "jsonl"}}
        stream = {"name": "in", "mode": "incremental"}
        return Sync(SyncDef.model_validate({**text, "streams": [stream]}), tmp_path, tmp_path / ".gauss")

    for _ in range(3):
        assert make().run().status == "succeeded"
    for each in (tmp_path / ".gauss" / "connect").glob("state.db*"):
        each.unlink()
    return make


def written(folder: Path) -> list[int]:
    """The numbers in the files of `files`, sorted."""
    return sorted(
        json.loads(line)["n"] for path in folder.glob("out/*/*.jsonl") for line in path.read_text().split("\n")[:-1]
    )


def edit(sync: Sync, value: CursorValue | None) -> None:
    store = sync.store()
    set_cursor(store, sync.definition, "in", value)
    store.close()


def test_a_reset_after_the_state_was_lost_reads_everything_once(tmp_path: Path, files: Callable[[], Sync]) -> None:
    edit(files(), None)
    edit(files(), None)
    assert files().run().status == "succeeded" and written(tmp_path) == [1, 1, 2, 2]
    (tmp_path / "in" / "b.jsonl").write_text('{"n": 3}\n')
    for _ in range(2):
        assert files().run().status == "succeeded" and written(tmp_path) == [1, 1, 2, 2, 3]


def test_a_run_that_dies_behind_its_commit_has_used_up_the_reset(
    tmp_path: Path, files: Callable[[], Sync], monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(files(), None)
    with monkeypatch.context() as patched:
        patched.setattr(StreamJob, "_store_cursor", lambda _: None)
        files().run()
    assert written(tmp_path) == [1, 1, 2, 2]
    assert files().run().status == "succeeded" and written(tmp_path) == [1, 1, 2, 2]
