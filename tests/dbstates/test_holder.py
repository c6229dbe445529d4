"""Files by whose locks clients hold instances, and things that are no such files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gauss.dbstates.holder import check_holder, is_held
from gauss.model.errors import ConfigError
from gauss.process import locks


def test_a_locked_file_is_held(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    file.touch()
    check_holder(str(file))
    assert not is_held(str(file))
    descriptor = locks.share(file)
    assert is_held(str(file))
    os.close(descriptor)
    assert not is_held(str(file))


@pytest.mark.parametrize("path", ["/tmp", "/none", "/etc/passwd/x", "/a\0b", "/" + "x" * 5000])
def test_what_is_no_file_is_refused_and_held_by_nobody(path: str) -> None:
    assert not is_held(path)
    with pytest.raises(ConfigError, match="held_by"):
        check_holder(path)
