"""Folder names of streams: reversible, and safe for any stream name.

Letters, digits and most signs stay as they are. `/`, `\\`, `%`, control characters, and a dot or an underscore at the
start are written as `%2F`. A name that is too long for one folder is continued in folders below it, and each but the
last ends in `%`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from urllib.parse import unquote_to_bytes

from gauss.contracts.connector.errors import ConnectorError

LONGEST_BYTES = 200
"""Maximum bytes of one folder name; file systems allow 255."""
_ESCAPED = re.compile(r"[/\\%\x00-\x1f\x7f\ud800-\udfff]")


def stream_folder(stream: str) -> PurePosixPath:
    """The folder of a stream, relative to the folder of all. Raises ConnectorError for an empty name."""
    if not stream:
        raise ConnectorError.config("BAD_STREAM", "a stream needs a name, found an empty one")
    parts = [""]
    for sign in _ESCAPED.sub(lambda found: _escape(found[0]), stream):
        if len(f"{parts[-1]}{sign}".encode()) > LONGEST_BYTES:
            parts.append("")
        # No part may be hidden, or mean this folder or the one above.
        parts[-1] += sign if parts[-1] or sign not in "._" else _escape(sign)
    # A part of the escape of a sign may be in the next folder: names are joined before they are decoded.
    return PurePosixPath(*(f"{part}%" for part in parts[:-1]), parts[-1])


def stream_name(folders: Sequence[str]) -> str:
    """The stream of a folder, given by the names of its path; the reverse of `stream_folder`."""
    joined = "".join(part.removesuffix("%") for part in folders)
    return unquote_to_bytes(joined).decode(errors="surrogatepass")


def is_continued(folder: str) -> bool:
    """Whether a folder holds only the rest of a long name."""
    return folder.endswith("%")


def _escape(sign: str) -> str:
    return "".join(f"%{byte:02X}" for byte in sign.encode(errors="surrogatepass"))
