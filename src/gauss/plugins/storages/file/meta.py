"""`meta.json` of a topic's folder: the framing that it is kept in, and its incarnation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gauss.contracts.storage import StorageContext
from gauss.model.errors import StorageError
from gauss.plugins.storages.file.disk import replace_file
from gauss.plugins.storages.file.spec import FileConfig

NAME = "meta.json"
FORMAT = 1


def open_meta(root: Path, config: FileConfig, context: StorageContext) -> int:
    """Checks that the folder is kept as the config says, and stores the incarnation before the first append."""
    path = root / NAME
    stored: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    told = {"framing": config.framing, "parameters": config.framing_parameters()}
    if stored:
        if stored.get("format") != FORMAT:
            raise StorageError(f"{path}: expected format {FORMAT}, found {stored.get('format')}")
        if _key(context, stored) != _key(context, told):
            raise StorageError(
                f'topic "{context.topic}": {root} is kept in framing {_words(stored)}, the config says {_words(told)}',
                hint="set the framing back, or give the topic another data_dir",
            )
    inc = context.incarnation(int(stored.get("inc", 0)))
    meta = {"format": FORMAT, **told, "inc": inc}
    if meta != stored:
        replace_file(path, json.dumps(meta).encode())
    return inc


def _key(context: StorageContext, kept: dict[str, Any]) -> object:
    """What makes two framings one; captures have none."""
    return None if kept["framing"] == "none" else context.framing(kept["framing"], kept["parameters"]).key


def _words(kept: dict[str, Any]) -> str:
    given = ", ".join(f"{name} = {json.dumps(value)}" for name, value in kept["parameters"].items())
    return f'"{kept["framing"]}"' + (f" ({given})" if given else "")
