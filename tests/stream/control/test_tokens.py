from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gauss.model.errors import StorageError
from gauss.model.paths import DataDir
from gauss.stream.control.tokens import kept_tokens


def test_tokens_differ_and_survive_a_restart(tmp_path: Path) -> None:
    first = kept_tokens(DataDir(tmp_path))
    assert first.full != first.read
    assert kept_tokens(DataDir(tmp_path)) == first


def test_token_file_holds_only_the_token_and_is_private(tmp_path: Path) -> None:
    paths = DataDir(tmp_path)
    found = kept_tokens(paths)
    assert (paths.full_token.read_text(), paths.read_token.read_text()) == (found.full, found.read)
    paths.read_token.chmod(0o644)
    kept_tokens(paths)
    for path in (paths.full_token, paths.read_token):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"", b"\n", b"short", b"\xff\xfe" * 20])
def test_token_file_without_a_whole_token_gets_a_new_one(tmp_path: Path, content: bytes) -> None:
    paths = DataDir(tmp_path)
    paths.full_token.write_bytes(content)
    assert len(kept_tokens(paths).full) >= 32


def test_token_that_a_person_wrote_is_kept_without_its_newline(tmp_path: Path) -> None:
    DataDir(tmp_path).read_token.write_text("a-token-of-my-own-choice\n")
    assert kept_tokens(DataDir(tmp_path)).read == "a-token-of-my-own-choice"


def test_token_file_that_can_not_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "full.token").mkdir()
    with pytest.raises(StorageError, match=r"full\.token can't be used"):
        kept_tokens(DataDir(tmp_path))


def test_tokens_are_not_shown(tmp_path: Path) -> None:
    found = kept_tokens(DataDir(tmp_path))
    assert found.full not in repr(found) and found.read not in repr(found)
