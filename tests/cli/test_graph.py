from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Gauss


@pytest.fixture(autouse=True)
def starter(gauss: Gauss) -> None:
    gauss("new")


def test_text_is_the_default(gauss: Gauss) -> None:
    done = gauss("graph")
    assert done.returncode == 0
    assert done.stdout.startswith("[feed]  tcp-source")
    assert "└─▶ (quotes.raw)" in done.stdout


@pytest.mark.parametrize(("format", "opening"), [("mermaid", "flowchart LR"), ("svg", "<svg ")])
def test_drawing_goes_to_stdout_or_a_file(gauss: Gauss, tmp_path: Path, format: str, opening: str) -> None:
    assert gauss("graph", "-f", format).stdout.startswith(opening)
    assert gauss("graph", ".", "--format", format, "-o", "drawn").returncode == 0
    assert (tmp_path / "drawn").read_text().startswith(opening)


def test_json_has_nodes_and_guarantees(gauss: Gauss) -> None:
    said = json.loads(gauss("graph", "--json").stdout)
    assert [node["name"] for node in said["topics"]] == ["quotes.raw", "quotes.high"]
    assert {node["name"]: node["where"] for node in said["processors"]}["high"] == "spark"
    assert said["guarantees"][0]["end"] == "out"


def test_faulty_config_lists_its_faults(gauss: Gauss, tmp_path: Path) -> None:
    file = tmp_path / "gauss.toml"
    file.write_text(file.read_text().replace('"memory"', '"memry"'))
    done = gauss("graph")
    assert done.returncode == 1
    assert 'unknown storage "memry"' in done.stderr


def test_unwritable_output_is_a_sentence(gauss: Gauss) -> None:
    done = gauss("graph", "-o", "no/such/folder/x.svg")
    assert done.returncode == 1
    assert done.stderr.startswith("error: can't write no/such/folder/x.svg")
