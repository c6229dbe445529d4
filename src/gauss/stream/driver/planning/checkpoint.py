"""A query's checkpoint: its folder, its identity, and how a lost or outdated checkpoint is handled."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import NamedTuple

from gauss.model.errors import ConfigError, ProtocolError
from gauss.model.paths import DataDir
from gauss.stream.driver.queries.sink import offsets_of


class Started(NamedTuple):
    """The checkpoint with which a processor was last started."""

    folder: str
    state: str
    """The state in Spark's plan, for a processor that does not declare it."""


def last_started(data_dir: DataDir, processor: str) -> Started | None:
    """The most recently started checkpoint of a processor."""
    marks = sorted((data_dir.checkpoints / processor).glob("*/started"), key=lambda path: path.stat().st_mtime_ns)
    return Started(marks[-1].parent.name, marks[-1].read_text()) if marks else None


class Checkpoint:
    """`checkpoints/<processor>/<plan hash>/`: Spark's checkpoint folder, the identity, and detected field types."""

    def __init__(self, data_dir: DataDir, processor: str, plan_hash: str) -> None:
        self.root = data_dir.checkpoints / processor / plan_hash
        self.spark = self.root / "spark"
        self.kinds = self.root / "kinds.json"
        self.restored = self.root / "restored.arrows"
        """Partials that precede the first batch."""
        self._identity = self.root / "id"
        self._series = self.root / "series"

    def open(self) -> str:
        """The identity; a new one if Spark's files are missing or damaged, which are then set aside."""
        self.root.mkdir(parents=True, exist_ok=True)
        known = self._identity.read_text().strip() if self._identity.exists() else ""
        if known and self._readable():
            return known
        return self.renew()

    def renew(self) -> str:
        """Creates a fresh checkpoint; the engine decides where it starts, never silently at 0."""
        if self.spark.exists():
            aside = self.root / "spark.damaged"
            shutil.rmtree(aside, ignore_errors=True)
            self.spark.rename(aside)
        self._series.unlink(missing_ok=True)
        fresh = uuid.uuid4().hex
        write_whole(self._identity, fresh.encode())
        return fresh

    def clear(self) -> None:
        """Deletes Spark's files and keeps the identity. The next epoch has the number 0 again, in another series."""
        if self.spark.exists():
            write_whole(self._series, uuid.uuid4().hex.encode())
            shutil.rmtree(self.spark, ignore_errors=True)

    @property
    def series(self) -> str:
        """Names the epochs since Spark's files were created: the identity, unless they were deleted since."""
        return (self._series if self._series.exists() else self._identity).read_text().strip()

    def _readable(self) -> bool:
        """Whether the checkpoint has no batch yet, or its newest entries can be read."""
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
            raise  # such as no free file descriptors: the files are not damaged
        except (ValueError, ProtocolError):
            return False
        return True

    @property
    def _started(self) -> Path:
        return self.root / "started"

    def replaces_another(self) -> bool:
        """Whether this checkpoint was never started and one of another plan was, so the processor has changed."""
        others = (folder for folder in self.root.parent.glob("*") if folder != self.root)
        return not self._started.exists() and any((folder / self._started.name).exists() for folder in others)

    def mark_started(self, state: str = "") -> None:
        """Marks the checkpoint as started: a missing Spark folder is then a lost one. `state`: as in `Started`."""
        write_whole(self._started, state.encode())

    def planned(self) -> int | None:
        """The newest epoch in Spark's offset log."""
        return _newest(self.spark / "offsets")

    def committed(self) -> int | None:
        """The newest epoch in Spark's commit log."""
        return _newest(self.spark / "commits")

    def unplan(self, epoch: int) -> None:
        """Removes an uncommitted epoch from Spark's offset log, so that Spark plans it again."""
        for path in (self.spark / "offsets" / str(epoch), self.spark / "offsets" / f".{epoch}.crc"):
            path.unlink(missing_ok=True)

    def mark_committed(self, epoch: int) -> None:
        """Adds an epoch to Spark's commit log, so that it is not run again."""
        if self.planned() != epoch:
            raise ConfigError(f"nothing to skip: epoch {epoch} was never planned")
        folder = self.spark / "commits"
        folder.mkdir(exist_ok=True)
        temporary = folder / f".{epoch}.new"
        temporary.write_text('v1\n{"nextBatchWatermarkMs":0}')
        temporary.rename(folder / str(epoch))


def write_whole(path: Path, content: bytes) -> None:
    """Replaces a file atomically; on a full disk the old one stays."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(content)
    temporary.replace(path)


def _newest(folder: Path) -> int | None:
    if not folder.is_dir():
        return None
    return max((int(path.name) for path in folder.iterdir() if path.name.isdigit()), default=None)
