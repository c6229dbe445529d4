"""The lock of a state that is being made: others wait, and then use what was made."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gauss.dbstates.prepare.control import JobControl
from gauss.process import locks

LOOK_SECONDS = 0.02


@contextmanager
def locked(path: Path, control: JobControl) -> Iterator[None]:
    """Holds a file lock; the wait for it ends with the job. The file stays, for others may wait for it."""
    while (descriptor := locks.take(path)) is None:
        control.wait(LOOK_SECONDS)
    try:
        yield
    finally:
        os.close(descriptor)
