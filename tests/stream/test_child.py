"""Settings and logs of a child process of control."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import pytest

from gauss.config.secrets import Redactor
from gauss.model.errors import ConfigError
from gauss.model.paths import DataDir
from gauss.stream.child import JsonLines, assignment

SECRET = "hunter2-value"


def test_log_lines_hide_secrets_in_messages_arguments_and_traces() -> None:
    try:
        raise ValueError(f"login with {SECRET} failed")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, __file__, 1, "used %s", (SECRET,), sys.exc_info())
    line = JsonLines(Redactor([SECRET])).format(record)
    assert json.loads(line)["message"] == "used ***"
    assert SECRET not in line


def test_assignment_says_who_starts_the_process_when_its_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"pipeline\.json is missing"):
        assignment(DataDir(tmp_path))
