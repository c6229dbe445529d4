from __future__ import annotations

from pathlib import Path

import pytest

from gauss.config.load import find_file, load
from gauss.model.errors import ConfigError


def test_syntax_error_gives_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text('name = "a"\nstorage = memory\n')
    fault = load(file).fault
    assert fault is not None
    assert (fault.line, fault.column) == (2, 11)
    assert fault.hint == "put text in quotes"
    assert str(fault).startswith(f"{file}:2:11: invalid TOML: ")


def test_key_given_twice_is_a_syntax_fault_at_the_second(tmp_path: Path) -> None:
    file = tmp_path / "twice.toml"
    file.write_text("a = 1\nb = 2\na = 3\n")
    fault = load(file).fault
    assert fault is not None
    assert fault.line == 3


def test_multi_line_inline_table_is_read(tmp_path: Path) -> None:
    file = tmp_path / "new.toml"
    file.write_text("config = {\n  port = 1, # a comment\n  input = { framing = 'newline' },\n}\n")
    assert load(file).data == {"config": {"port": 1, "input": {"framing": "newline"}}}


def test_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "bom.toml"
    file.write_bytes(b"\xef\xbb\xbfa = 1\n")
    assert load(file).data == {"a": 1}


def test_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    file = tmp_path / "latin.toml"
    file.write_bytes(b'a = "caf\xe9"\n')
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(file)


def test_folder_means_its_gauss_toml(tmp_path: Path) -> None:
    (tmp_path / "other.toml").touch()
    (tmp_path / "gauss.toml").touch()
    assert find_file(tmp_path) == tmp_path / "gauss.toml"


def test_folder_with_one_toml_means_that_one(tmp_path: Path) -> None:
    (tmp_path / "market.toml").touch()
    assert find_file(tmp_path) == tmp_path / "market.toml"


def test_folder_with_several_is_refused_and_names_them(tmp_path: Path) -> None:
    (tmp_path / "a.toml").touch()
    (tmp_path / "b.toml").touch()
    with pytest.raises(ConfigError, match=r"a\.toml, b\.toml"):
        find_file(tmp_path)


def test_missing_file_names_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "market.toml").touch()
    with pytest.raises(ConfigError) as raised:
        find_file(tmp_path / "markt.toml")
    assert "market.toml" in raised.value.hint
