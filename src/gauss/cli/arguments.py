"""Arguments that several commands take alike."""

from __future__ import annotations

from pathlib import Path


def file_and_name(file: Path, name: str) -> tuple[Path, str]:
    """`FILE NAME` as given. A name alone means the pipeline of this folder; a name before its file is understood."""
    is_file = file.exists() or file.suffix == ".toml"
    if not is_file and (not name or Path(name).exists()):
        return Path(name), str(file)
    return file, name
