"""The check reports faults for any content of a config, and never crashes."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import tomli
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.config.check import check
from gauss.config.positions import KeyPath
from helpers.cases import cases

if TYPE_CHECKING:
    from .conftest import Judge

WHOLE = """\
[[formats]]
name = "quote"
plugin = "json"
config = { fields = [{ name = "symbol", type = "string" }, { name = "bid", type = "double" }] }
[[topics]]
name = "raw"
storage = "memory"
storage_config = { storage_size = 10, write_full = "drop" }
[[topics]]
name = "kept"
storage = "file"
storage_config = { framing = "newline", max_bytes = "1MiB" }
[[processors]]
name = "feed"
plugin = "tcp-source"
target = { topic = "raw" }
config = { port = 9100, input = { format = "quote", framing = "newline", delimiter = "x" } }
[[processors]]
name = "keep"
plugin = "filter"
source = { topic = "raw", read = "offset", start = "end" }
target = { topic = "kept" }
config = { input = { format = "quote" }, where = ".bid > 1" }
[[processors]]
name = "pick"
plugin = "sql"
source = { topic = "raw", read = "offset" }
target = { topic = "kept" }
config = { input = { format = "quote" }, query = "SELECT bid FROM input" }
[[processors]]
name = "out"
plugin = "tcp-sink"
source = { topic = "kept", read = "latest" }
config = { port = 9300, output = { framing = "fixed_size", frame_size = 4 } }
[spark]
master = "local[2]"
[engine]
port = 0
[api]
host = "127.0.0.1"
"""
ODD: list[Any] = [True, -1, 2**70, 1.5, "", "x" * 300, "${", "raw", [], [1, {}], {}, {"a": {"b": [1]}}, [[{}]]]


def places(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    if path:
        yield path
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


PLACES = list(places(tomli.loads(WHOLE)))


def as_toml(value: Any) -> str:
    """A value as one line of TOML; the same as JSON except for tables."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {as_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return json.dumps(value)


def replaced(path: KeyPath, value: Any) -> str:
    data = copy.deepcopy(tomli.loads(WHOLE))
    table: Any = data
    for key in path[:-1]:
        table = table[key]
    table[path[-1]] = value
    return "\n".join(f"{json.dumps(key)} = {as_toml(item)}" for key, item in data.items())


def test_the_whole_config_is_sound(judge: Judge) -> None:
    assert judge(WHOLE).errors == []


@given(st.sampled_from(PLACES), st.sampled_from(ODD))
@settings(max_examples=cases(250), deadline=None)
def test_any_value_at_any_place_gives_faults_and_no_exception(
    tmp_path_factory: pytest.TempPathFactory, path: KeyPath, value: Any
) -> None:
    file = tmp_path_factory.getbasetemp() / "odd.toml"
    file.write_text(replaced(path, value), encoding="utf-8")
    checked = check(file)
    assert (checked.pipeline is None) == bool(checked.errors)
    for fault in checked.faults:
        assert fault.message
        assert fault.line >= 1
        json.dumps(fault.to_dict())


BROKEN_PLUGIN = """
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import ProcessorSpec, Role, Where

class Config(PluginConfig):
    pass

def lint(config, context):
    raise RuntimeError("oops")

SPEC = ProcessorSpec(name="broken", summary="", config=Config, implementation="x:y", role=Role.TRANSFORM,
                     where=Where.ENGINE, active=False, lint=lint)
"""


def test_plugin_whose_lint_fails_is_a_fault(
    judge: Judge, sound: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gauss_test_lint.py").write_text(BROKEN_PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("gauss_test_lint", None)
    step = (
        '[[topics]]\nname = "b"\nstorage = "memory"\n[[processors]]\nname = "step"\nplugin = "gauss_test_lint:SPEC"\n'
        'source = { topic = "quotes", read = "offset" }\ntarget = { topic = "b" }\n'
    )
    [fault] = judge(sound + step).errors
    assert "failed to check its config: RuntimeError: oops" in fault.message
