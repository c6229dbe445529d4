"""The place of a stream at a destination: its folder, and what is hidden from readers.

`<path>/<stream>/` holds the data files, `<path>/.gauss/<stream>/` the lock, the fences of syncs and the folders that
full refreshes write before they take the place of the first.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pyarrow as pa

from gauss.contracts.connector.errors import CommitState, ConnectorError, fenced
from gauss.plugins.connectors.file.atomic import locked, make_folder, swap, sync_folder, undo_swap, write_whole
from gauss.plugins.connectors.file.data_folder import Complete, DataFolder, Writer, Written, digest
from gauss.plugins.connectors.file.io_errors import file_errors
from gauss.plugins.connectors.file.names import stream_folder

STATE_FOLDER = ".gauss"


class _Fence(msgspec.Struct, frozen=True):
    pipeline: str
    generation: int


class StreamStore:
    """A stream as one sync writes it. Used by several processes at once."""

    def __init__(self, root: Path, stream: str, pipeline: str) -> None:
        place = stream_folder(stream)
        self.live = DataFolder(root / place)
        self._state = root / STATE_FOLDER / place
        self._pipeline = pipeline
        self._staging = f"staging-{digest(pipeline)}-"
        self._aside = self._state / f"aside-{digest(pipeline)}"

    def staging(self, generation: int) -> DataFolder:
        """The folder that a full refresh writes."""
        return DataFolder(self._state / f"{self._staging}{generation}")

    # --- fencing ---

    def generation(self) -> int | None:
        """That of the last run that was prepared."""
        try:
            found = msgspec.json.decode((self._state / self._fence_name).read_bytes(), type=_Fence)
        except FileNotFoundError:
            return None
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise ConnectorError.internal("DAMAGED", f"{self._state / self._fence_name} is damaged: {error}") from error
        return found.generation

    @property
    def _fence_name(self) -> str:
        return f"fence-{digest(self._pipeline)}.json"

    @contextmanager
    def held(self, generation: int) -> Iterator[None]:
        """Keeps all others from changing the stream; raises ConnectorError if a later run has begun."""
        with locked(self._state / "lock"):
            found = self.generation()
            if found is not None and found > generation:
                raise fenced(str(self.live.path), generation, found)
            yield

    # --- steps of a run ---

    def prepare(self, generation: int, schema: pa.Schema | None, *, staged: bool, keep: bool) -> None:
        """Fences earlier runs, completes or removes what they have left, and makes the folder to write to."""
        if staged and (foreign := self.live.foreign(keep=keep)):
            raise ConnectorError.config(
                "FOREIGN_FOLDER",
                f"{self.live.path} was not written by a sync, and a full refresh would remove what it has:"
                f" {', '.join(map(repr, foreign[:5]))}{' and others' if len(foreign) > 5 else ''}",
                hint="set another `path`, or move the folder away",
            )
        make_folder(self._state)
        with self.held(generation):
            fence = msgspec.json.encode(_Fence(self._pipeline, generation))
            write_whole(self._state / self._fence_name, fence)
            sync_folder(self._state)
            undo_swap(self.live.path, self._aside)
            done = self._is_complete(generation)
            if staged and done:  # by a run whose number the state has forgotten
                raise fenced(str(self.live.path), generation, generation)
            for path in (*self._state.glob(f"{self._staging}*"), self._aside):
                if done or path != self.staging(generation).path:
                    shutil.rmtree(path, ignore_errors=True)
            self.live.recover(self._pipeline)
            folder = self.staging(generation) if staged else self.live
            folder.make()
            schema = self.live.schema() if schema is None and staged else schema
            if schema is not None:
                folder.set_schema(schema)

    def commit(
        self, folder: DataFolder, writer: Writer, after: Written, *, before: Written | None, schema: pa.Schema | None
    ) -> None:
        """Commits rows with their watermark, and makes them visible in the folder. `schema`: for one without."""
        with file_errors(folder.path, "write"), self.held(after.generation):
            if schema is not None and folder.schema() is None:
                folder.set_schema(schema.remove_metadata())
            folder.commit(writer, before, after)
            try:
                folder.publish(after)
            except OSError as error:
                raise ConnectorError.transient_db(
                    "COMMIT_UNKNOWN",
                    f"{folder.path}: the watermark was written, but it may not survive a crash: {error}",
                    commit_state=CommitState.AFTER_COMMIT_UNKNOWN,
                ) from error

    def finish(self, generation: int, *, keep: bool) -> None:
        """Puts what a full refresh has written in the place of the folder. `keep`: with the files that it has."""
        with self.held(generation):
            staging = self.staging(generation)
            if not self._is_complete(generation):
                undo_swap(self.live.path, self._aside)
                if not staging.path.is_dir():
                    raise ConnectorError.internal("NOT_PREPARED", f"nothing was written for {self.live.path}")
                staging.recover(self._pipeline)
                if self.live.path.is_dir():
                    self.live.recover(self._pipeline)
                    staging.link_watermarks(self.live, self._pipeline)
                    if keep:
                        staging.link_files(self.live)
                staging.set_complete(Complete(self._pipeline, generation))
                swap(staging.path, self.live.path, self._aside)
            shutil.rmtree(staging.path, ignore_errors=True)
            shutil.rmtree(self._aside, ignore_errors=True)

    def _is_complete(self, generation: int) -> bool:
        return self.live.complete() == Complete(self._pipeline, generation)
