"""A query's checkpoint: its folder, its identity, and what becomes of it when it is lost or out of date."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import NamedTuple

from gauss.model.errors import ConfigError, ProtocolError
from gauss.model.paths import DataDir
from gauss.stream.driver.sink import offsets_of


class Started(NamedTuple):
    """The checkpoint with which a processor was last started."""

    folder: str
    state: str
    """What Spark's plan kept, of a processor that does not declare it."""


def last_started(data_dir: DataDir, processor: str) -> Started | None:
    """The newest of a processor's checkpoints."""
    marks = sorted((data_dir.checkpoints / processor).glob("*/started"), key=lambda path: path.stat().st_mtime_ns)
    return Started(marks[-1].parent.name, marks[-1].read_text()) if marks else None


class Checkpoint:
    """`checkpoints/<processor>/<plan hash>/`: Spark's own folder, the identity and what was detected, beside it."""

    def __init__(self, data_dir: DataDir, processor: str, plan_hash: str) -> None:
        self.root = data_dir.checkpoints / processor / plan_hash
        self.spark = self.root / "spark"
        self.kinds = self.root / "kinds.json"
        self.restored = self.root / "restored.arrows"
        """Partials that come before the first batch."""
        self._identity = self.root / "id"

    def open(self) -> str:
        """The identity; a new one when Spark's files are missing or damaged: they are set aside then."""
        self.root.mkdir(parents=True, exist_ok=True)
        known = self._identity.read_text().strip() if self._identity.exists() else ""
        if known and self._readable():
            return known
        return self.renew()

    def renew(self) -> str:
        """A fresh checkpoint: the engine then says where it begins, never silently from 0."""
        if self.spark.exists():
            aside = self.root / "spark.damaged"
            shutil.rmtree(aside, ignore_errors=True)
            self.spark.rename(aside)
        fresh = uuid.uuid4().hex
        write_whole(self._identity, fresh.encode())
        return fresh

    def clear(self) -> None:
        """Throws Spark's files away under the same identity."""
        shutil.rmtree(self.spark, ignore_errors=True)

    def _readable(self) -> bool:
        """A checkpoint that no batch has reached yet, or whose newest entries can be read."""
        if not self.spark.exists():
            return not self._started.exists()
        try:
            json.loads((self.spark / "metadata").read_text())
            newest = self.planned()
            if newest is not None:
                offsets_of(str(self.spark), newest)
        except FileNotFoundError:
            return False
        except OSError:
            raise  # no descriptors left, say: the files are as good as before
        except (ValueError, ProtocolError):
            return False
        return True

    @property
    def _started(self) -> Path:
        return self.root / "started"

    def replaces_another(self) -> bool:
        """Whether this one has never run, and one of another plan has: the processor was changed in between."""
        others = (folder for folder in self.root.parent.glob("*") if folder != self.root)
        return not self._started.exists() and any((folder / self._started.name).exists() for folder in others)

    def mark_started(self, state: str = "") -> None:
        """From now on an absent Spark folder means that it was lost. `state`: as in `Started`."""
        write_whole(self._started, state.encode())

    def planned(self) -> int | None:
        """The newest epoch in Spark's offset log."""
        return _newest(self.spark / "offsets")

    def committed(self) -> int | None:
        """The newest epoch in Spark's commit log."""
        return _newest(self.spark / "commits")

    def unplan(self, epoch: int) -> None:
        """Lets Spark plan an epoch anew that it has planned and not committed."""
        for path in (self.spark / "offsets" / str(epoch), self.spark / "offsets" / f".{epoch}.crc"):
            path.unlink(missing_ok=True)

    def mark_committed(self, epoch: int) -> None:
        """Tells Spark that an epoch is done, so that it is not run again."""
        if self.planned() != epoch:
            raise ConfigError(f"epoch {epoch} was never planned: there is nothing to skip")
        folder = self.spark / "commits"
        folder.mkdir(exist_ok=True)
        temporary = folder / f".{epoch}.new"
        temporary.write_text('v1\n{"nextBatchWatermarkMs":0}')
        temporary.rename(folder / str(epoch))


def write_whole(path: Path, content: bytes) -> None:
    """Replaces a file: on a full disk the old one stays."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(content)
    temporary.replace(path)


def _newest(folder: Path) -> int | None:
    if not folder.is_dir():
        return None
    return max((int(path.name) for path in folder.iterdir() if path.name.isdigit()), default=None)
