"""Loads a config file with the position of every key."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli

from gauss.config.faults import Fault
from gauss.config.positions import KeyPath, Position, find_positions
from gauss.model.errors import ConfigError

FILE_NAME = "gauss.toml"
FILE_NAMES = (FILE_NAME, "pipeline.toml")


@dataclass(frozen=True)
class Document:
    """A parsed file. If it is not valid TOML, `fault` is set and the rest is empty."""

    file: Path
    data: dict[str, Any]
    positions: dict[KeyPath, Position]
    fault: Fault | None = None


def find_file(given: Path) -> Path:
    """The config file: itself, or a folder's `gauss.toml`, `pipeline.toml` or only `.toml` beside its tests."""
    if given.is_dir():
        for name in FILE_NAMES:
            if (given / name).is_file():
                return given / name
        files = [file for file in sorted(given.glob("*.toml")) if not file.name.endswith(".test.toml")]
        if len(files) == 1:
            return files[0]
        found = f"found {', '.join(file.name for file in files)}" if files else "found no .toml file"
        raise ConfigError(
            f"{given} is a folder without a {FILE_NAME}: {found}", hint="pass the file, or create one with gauss new"
        )
    if not given.exists():
        near = [file.name for file in sorted(given.parent.glob("*.toml"))] if given.parent.is_dir() else []
        hint = f"found: {', '.join(near)}" if near else "create one with gauss new"
        raise ConfigError(f"{given} does not exist", hint=hint)
    return given


def load(file: Path) -> Document:
    """Reads and parses a file. A syntax error becomes its fault, with line and column."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8 text (byte {error.start})", hint="save it as UTF-8") from error
    except OSError as error:
        raise ConfigError(f"can't read {file}: {error.strerror}", hint="check that it is a readable file") from error
    try:
        return Document(file, tomli.loads(text), find_positions(text))
    except tomli.TOMLDecodeError as error:
        fault = Fault(
            file=str(file),
            line=error.lineno,
            column=error.colno,
            path="",
            message=f"invalid TOML: {error.msg[:1].lower()}{error.msg[1:]}",
            hint=_syntax_hint(text, error.lineno),
        )
        return Document(file, {}, {}, fault)


def _syntax_hint(text: str, line: int) -> str:
    lines = text.splitlines()
    if not 1 <= line <= len(lines):
        return "check for an unclosed bracket or quote"
    _, equals, value = lines[line - 1].partition("=")
    if equals and value.strip()[:1].isalpha() and value.strip() not in ("true", "false"):
        return "put text in quotes"
    return ""
