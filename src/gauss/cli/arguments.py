"""Arguments that several commands share."""

from __future__ import annotations

from pathlib import Path


def file_and_name(file: Path, name: str) -> tuple[Path, str]:
    """Returns `(file, name)`. A name alone means the pipeline of the current folder; `NAME FILE` is accepted too."""
    is_file = file.exists() or file.suffix == ".toml"
    if not is_file and (not name or Path(name).exists()):
        return Path(name), str(file)
    return file, name
