from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gauss import registry
from gauss.contracts.connector.spec import DestinationSpec, SourceSpec
from gauss.contracts.format import FormatSpec
from gauss.contracts.framing import FramingSpec
from gauss.contracts.plugin import ABI_VERSION, PluginSpec
from gauss.contracts.processor import ProcessorSpec
from gauss.contracts.storage import StorageSpec
from gauss.contracts.transform import Schemas
from gauss.contracts.transport import TransportSpec
from gauss.model.errors import PluginError

MODULE = f"""
from gauss.contracts.framing import FramingSpec
from gauss.contracts.plugin import PluginConfig

class Config(PluginConfig):
    mark: str = "|"

def spec(**changes):
    given = dict(name="own", summary="", config=Config, implementation="gauss_test_own:Own", raw=True)
    return FramingSpec(**(given | changes))

class Own:
    SPEC = spec()
    def __init__(self, config):
        self.config = config

OLD = spec(abi={ABI_VERSION - 1}, implementation="gauss_test_own:EXPLODES_WHEN_BUILT")
GONE = spec(implementation="gauss_test_own:Missing")
"""


@pytest.fixture(autouse=True)
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gauss_test_own.py").write_text(MODULE)
    (tmp_path / "gauss_test_broken.py").write_text("raise ImportError('no such wheel')\n")
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("gauss_test_own", None)


def test_built_ins_come_by_entry_point() -> None:
    assert {"memory", "file"} <= set(registry.names(StorageSpec))
    assert registry.spec(StorageSpec, "memory").name == "memory"


@pytest.mark.parametrize(
    "kind",
    [FormatSpec, FramingSpec, TransportSpec, StorageSpec, ProcessorSpec, SourceSpec, DestinationSpec],
)
def test_every_installed_spec_is_registered_under_its_own_name(kind: type[PluginSpec]) -> None:
    assert registry.names(kind)
    for name in registry.names(kind):
        assert registry.spec(kind, name).name == name


def test_class_of_ones_own_is_named_by_module_and_class() -> None:
    spec = registry.spec(FramingSpec, "gauss_test_own:Own")
    built = registry.build(spec, spec.validate({"mark": "#"}))
    assert built.config.mark == "#"


def test_unknown_name_gives_the_nearest() -> None:
    with pytest.raises(PluginError) as raised:
        registry.spec(StorageSpec, "memmory")
    assert raised.value.message == 'unknown storage "memmory"'
    assert raised.value.hint == 'did you mean "memory"?'


def test_unknown_name_far_from_all_lists_what_is_installed() -> None:
    with pytest.raises(PluginError) as raised:
        registry.spec(StorageSpec, "zzz")
    assert "file" in raised.value.hint
    assert "memory" in raised.value.hint


def test_other_abi_is_refused_before_anything_is_built() -> None:
    with pytest.raises(PluginError) as raised:
        registry.spec(FramingSpec, "gauss_test_own:OLD")
    assert f"speaks plugin ABI {ABI_VERSION - 1}, this Gauss speaks {ABI_VERSION}" in raised.value.message


def test_plugin_of_another_kind_is_refused() -> None:
    with pytest.raises(PluginError) as raised:
        registry.spec(ProcessorSpec, "gauss_test_own:Own")
    assert "is not a processor: expected a ProcessorSpec, found FramingSpec" in raised.value.message
    assert "gauss.framings" in raised.value.hint


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("gauss_test_nowhere:X", "No module named"),
        ("gauss_test_own:Nope", "has no Nope"),
        ("gauss_test_broken:X", "no such wheel"),
    ],
)
def test_module_that_cannot_be_loaded_says_why(path: str, reason: str) -> None:
    with pytest.raises(PluginError, match=reason):
        registry.spec(FramingSpec, path)


def test_missing_implementation_is_a_plugin_error() -> None:
    spec = registry.spec(FramingSpec, "gauss_test_own:GONE")
    with pytest.raises(PluginError, match="has no implementation"):
        registry.build(spec, spec.validate({}))


def test_a_file_in_the_configs_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "pipeline"
    folder.mkdir()
    code = (
        "from gauss.contracts.function import arrow_function\n@arrow_function()\ndef same(batch):\n    return batch\n"
    )
    (folder / "gauss_test_beside.py").write_text(code + "def bare(batch):\n    return batch\n")
    (folder / "gauss_test_faulty.py").write_text("1 / 0\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv(registry.PLUGIN_DIR, "")
    with pytest.raises(PluginError, match="gauss_test_beside"):
        registry.spec(ProcessorSpec, "gauss_test_beside:same")
    registry.look_in(folder)
    found = registry.spec(ProcessorSpec, "gauss_test_beside:same")
    assert registry.build(found, found.validate({})).bind(Schemas()).fields == []
    with pytest.raises(PluginError) as told:
        registry.spec(ProcessorSpec, "gauss_test_beside:bare")
    assert "@arrow_function()" in told.value.hint
    with pytest.raises(PluginError, match="ZeroDivisionError"):
        registry.spec(ProcessorSpec, "gauss_test_faulty:same")


def test_name_from_a_request_is_an_installed_plugin_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gauss_test_planted.py").write_text("raise SystemExit\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert registry.installed(FramingSpec, "newline").name == "newline"
    for name in ("gauss_test_planted:SPEC", "gauss.plugins.framings.newline.spec:SPEC", ":", "none"):
        with pytest.raises(PluginError):
            registry.installed(FramingSpec, name)
    assert "gauss_test_planted" not in sys.modules
