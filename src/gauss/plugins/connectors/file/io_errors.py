"""Errors of the file system as errors of a connector."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from gauss.contracts.connector.errors import ConnectorError, ErrorScope

_WRONG = {
    errno.ENOENT: "it does not exist",
    errno.ENOTDIR: "a part of its path is a file",
    errno.EISDIR: "it is a directory",
    errno.EEXIST: "a directory is expected, found a file",
}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def file_errors(path: Path, doing: str) -> Iterator[None]:
    """Raises what goes wrong inside as ConnectorError. `doing`: what is tried, such as `read`."""
    try:
        yield
    except ConnectorError:
        raise
    except OSError as error:
        raise _typed(error, path, doing) from error
    except (pa.ArrowException, EOFError, UnicodeDecodeError) as error:
        raise corrupt(path, error) from error


def corrupt(path: Path, error: Exception) -> ConnectorError:
    """The error of a file whose content can't be read."""
    reason = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
    return ConnectorError.data(
        "CORRUPT_FILE",
        f"{path}: the content can't be read: {reason}",
        scope=ErrorScope.STREAM,
        hint="replace or remove the file, or check `format`",
        details={"file": str(path)},
    )


def _typed(error: OSError, path: Path, doing: str) -> ConnectorError:
    place = error.filename if isinstance(error.filename, str) else str(path)
    if error.errno is None:  # Arrow's own, such as a broken gzip stream
        return corrupt(path, error)
    if error.errno in _WRONG:
        return ConnectorError.config(
            "NO_PATH",
            f"can't {doing} {place}: {_WRONG[error.errno]}",
            hint="check `path`; it is relative to the config file",
        )
    if error.errno in _DENIED:
        return ConnectorError.permission(
            "NO_PERMISSION", f"can't {doing} {place}: permission denied", hint="change the owner or mode of the path"
        )
    if error.errno in _FULL:
        return ConnectorError.transient_db(
            "DISK_FULL",
            f"can't {doing} {place}: the disk is full, or a limit of file sizes or quotas is reached",
            hint="free some space; what was committed is kept, the rest is written again",
        )
    if error.errno == errno.ENAMETOOLONG:
        return ConnectorError.config("NAME_TOO_LONG", f"can't {doing} {place}: the name is too long")
    return ConnectorError.transient_db("IO_ERROR", f"can't {doing} {place}: {error.strerror or error}")
