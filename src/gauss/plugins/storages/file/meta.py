"""`meta.json` of a topic's folder: the framing of its bytes, its incarnation and the gaps in its offsets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import xxhash

from gauss import registry
from gauss.contracts.framing import Framing, FramingSpec
from gauss.contracts.storage import StorageContext
from gauss.model.errors import Damaged, StorageError
from gauss.plugins.storages.file.disk import replace_file, segment_files
from gauss.plugins.storages.file.spec import FileConfig

NAME = "meta.json"
COPY = "meta.copy.json"
"""A copy that is written with every `meta.json`, from which a repair restores it."""
FORMAT = 1


class Meta:
    """The metadata of a topic's folder."""

    def __init__(self, root: Path, stored: dict[str, Any]) -> None:
        self._root, self._stored = root, stored
        self.inc: int = stored["inc"]
        self.framing: str = stored["framing"]
        gaps = stored.get("gaps")
        self.gaps: list[tuple[int, int]] | None = None if gaps is None else [(first, stop) for first, stop in gaps]
        """Offset ranges that were never used; None in folders of older versions."""

    def built_framing(self) -> Framing:
        """The framing of the bytes, for tools without the config."""
        spec = registry.spec(FramingSpec, self.framing)
        built: Framing = registry.build(spec, spec.validate(self._stored["parameters"]))
        return built

    def add_gap(self, first: int, stop: int) -> None:
        """Records a range of unused offsets, before the gap exists."""
        if self.gaps is not None:
            self.gaps = [*self.gaps, (first, stop)]
            write(self._root, {**self._stored, "gaps": self.gaps})


def restore(root: Path) -> None:
    """Restores the file from its copy."""
    write(root, read(root / COPY))


def load(root: Path) -> Meta:
    """Reads the metadata without checks."""
    return Meta(root, read(root / NAME))


def open_meta(root: Path, config: FileConfig, context: StorageContext) -> Meta:
    """Checks that the folder is kept as the config says, and stores the incarnation before the first append."""
    path = root / NAME
    stored = read(path) if path.exists() else {}
    wanted = {"framing": config.framing, "parameters": config.framing_parameters()}
    if stored and _key(context, stored) != _key(context, wanted):
        raise StorageError(
            f'topic "{context.topic}": {root} is kept in framing {_words(stored)}, the config says {_words(wanted)}',
            hint="set the framing back, or give the topic another data_dir",
        )
    if not stored and any(path.stat().st_size for path in segment_files(root, "index")):
        raise Damaged(
            f'{path} is missing beside the records of topic "{context.topic}"', hint="gauss repair shows the choices"
        )
    inc = context.incarnation(int(stored.get("inc", 0)))
    meta = {"format": FORMAT, **wanted, "inc": inc}
    if not stored or "gaps" in stored:
        meta["gaps"] = stored.get("gaps", [])
    if meta != stored or not _same(path, root / COPY):
        write(root, meta)
    return Meta(root, meta)


def read(path: Path) -> dict[str, Any]:
    """What the file holds; Damaged when that is not what was written."""
    try:
        found = json.loads(path.read_bytes())
        stored_sum = found.pop("checksum", None)  # folders of older versions have none
        sound = isinstance(found["inc"], int) and isinstance(found["framing"], str) and "parameters" in found
        if not sound or (stored_sum is not None and stored_sum != _checksum(found)):
            raise ValueError("its checksum does not match")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"{path} is damaged: {error}", hint="gauss repair shows the choices") from error
    if found.get("format") != FORMAT:
        raise StorageError(f"{path}: expected format {FORMAT}, found {found.get('format')}")
    return dict(found)


def write(root: Path, meta: dict[str, Any]) -> None:
    """Writes the file and its copy atomically."""
    content = json.dumps({**meta, "checksum": _checksum(meta)}).encode()
    for name in (NAME, COPY):
        replace_file(root / name, content)


def _same(path: Path, copy: Path) -> bool:
    return copy.exists() and path.read_bytes() == copy.read_bytes()


def _checksum(meta: dict[str, Any]) -> str:
    return xxhash.xxh3_64(json.dumps(meta, sort_keys=True).encode()).hexdigest()


def _key(context: StorageContext, kept: dict[str, Any]) -> object:
    """The identity of a framing; None for captures."""
    return None if kept["framing"] == "none" else context.framing(kept["framing"], kept["parameters"]).key


def _words(kept: dict[str, Any]) -> str:
    given = ", ".join(f"{name} = {json.dumps(value)}" for name, value in kept["parameters"].items())
    return f'"{kept["framing"]}"' + (f" ({given})" if given else "")
