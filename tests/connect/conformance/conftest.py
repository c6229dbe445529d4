"""The kit looks for classes in a folder of the test: only for as long as the test runs."""

from __future__ import annotations

import os
import sys

import pytest

from gauss import registry


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(registry.PLUGIN_DIR, os.environ.get(registry.PLUGIN_DIR, ""))
    monkeypatch.setattr(sys, "path", list(sys.path))
