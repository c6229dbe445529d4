"""Files that a config names must be there before anything starts."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from gauss.config.faults import Scope


def check_files(config: BaseModel, base_dir: Path, scope: Scope) -> None:
    """Every `Path` in a config is a file to read, unless its key ends in `_dir`: a folder that may be made."""
    for key in type(config).model_fields:
        value = getattr(config, key)
        if isinstance(value, BaseModel):
            check_files(value, base_dir, scope.inside(key))
        elif isinstance(value, Path) and not key.endswith("_dir"):
            check_file(value, key, base_dir, scope)


def check_file(file: Path, key: str, base_dir: Path, scope: Scope) -> None:
    """A fault when there is no such file; a relative path starts at the config file's folder."""
    if not (base_dir / file).is_file():
        scope.add(
            (key,),
            f'"{key}" names a file that is not there',
            expected="a file",
            found=str(base_dir / file),
            hint="" if file.is_absolute() else "relative paths start at the folder of the config file",
        )
