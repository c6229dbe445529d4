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
"""Written with every `meta.json`: what a repair restores it from."""
FORMAT = 1


class Meta:
    """What a topic's folder says of itself."""

    def __init__(self, root: Path, stored: dict[str, Any]) -> None:
        self._root, self._stored = root, stored
        self.inc: int = stored["inc"]
        self.framing: str = stored["framing"]
        gaps = stored.get("gaps")
        self.gaps: list[tuple[int, int]] | None = None if gaps is None else [(first, stop) for first, stop in gaps]
        """Ranges of offsets that no record ever had; None: the folder is older than this list."""

    def built_framing(self) -> Framing:
        """The framing of the bytes, for whoever has no config at hand."""
        spec = registry.spec(FramingSpec, self.framing)
        built: Framing = registry.build(spec, spec.validate(self._stored["parameters"]))
        return built

    def add_gap(self, first: int, stop: int) -> None:
        """Notes, before it is there, that offsets are left out."""
        if self.gaps is not None:
            self.gaps = [*self.gaps, (first, stop)]
            write(self._root, {**self._stored, "gaps": self.gaps})


def restore(root: Path) -> None:
    """Writes the file again from its copy."""
    write(root, read(root / COPY))


def load(root: Path) -> Meta:
    """What a folder says of itself, as it is."""
    return Meta(root, read(root / NAME))


def open_meta(root: Path, config: FileConfig, context: StorageContext) -> Meta:
    """Checks that the folder is kept as the config says, and stores the incarnation before the first append."""
    path = root / NAME
    stored = read(path) if path.exists() else {}
    told = {"framing": config.framing, "parameters": config.framing_parameters()}
    if stored and _key(context, stored) != _key(context, told):
        raise StorageError(
            f'topic "{context.topic}": {root} is kept in framing {_words(stored)}, the config says {_words(told)}',
            hint="set the framing back, or give the topic another data_dir",
        )
    if not stored and any(path.stat().st_size for path in segment_files(root, "index")):
        raise Damaged(
            f'{path} is missing beside the records of topic "{context.topic}"', hint="gauss repair shows the choices"
        )
    inc = context.incarnation(int(stored.get("inc", 0)))
    meta = {"format": FORMAT, **told, "inc": inc}
    if not stored or "gaps" in stored:
        meta["gaps"] = stored.get("gaps", [])
    if meta != stored or not _same(path, root / COPY):
        write(root, meta)
    return Meta(root, meta)


def read(path: Path) -> dict[str, Any]:
    """What the file holds; Damaged when that is not what was written."""
    try:
        found = json.loads(path.read_bytes())
        told = found.pop("checksum", None)  # folders of older versions have none
        sound = isinstance(found["inc"], int) and isinstance(found["framing"], str) and "parameters" in found
        if not sound or (told is not None and told != _checksum(found)):
            raise ValueError("its checksum does not fit")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"{path} is damaged: {error}", hint="gauss repair shows the choices") from error
    if found.get("format") != FORMAT:
        raise StorageError(f"{path}: expected format {FORMAT}, found {found.get('format')}")
    return dict(found)


def write(root: Path, meta: dict[str, Any]) -> None:
    """Writes the file and its copy, each whole or not at all."""
    content = json.dumps({**meta, "checksum": _checksum(meta)}).encode()
    for name in (NAME, COPY):
        replace_file(root / name, content)


def _same(path: Path, copy: Path) -> bool:
    return copy.exists() and path.read_bytes() == copy.read_bytes()


def _checksum(meta: dict[str, Any]) -> str:
    return xxhash.xxh3_64(json.dumps(meta, sort_keys=True).encode()).hexdigest()


def _key(context: StorageContext, kept: dict[str, Any]) -> object:
    """What makes two framings one; captures have none."""
    return None if kept["framing"] == "none" else context.framing(kept["framing"], kept["parameters"]).key


def _words(kept: dict[str, Any]) -> str:
    given = ", ".join(f"{name} = {json.dumps(value)}" for name, value in kept["parameters"].items())
    return f'"{kept["framing"]}"' + (f" ({given})" if given else "")
