"""ClickHouse errors by what a writer can do about them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import urllib3.exceptions
from clickhouse_connect.driver.exceptions import ClickHouseError, DataError, StreamFailureError

from gauss.clients.errors import RowError, Unclear
from gauss.model.errors import ConfigError, DiskFull, GaussError, StorageError, Unavailable

_UNCLEAR = {159, 209, 210, 236, 319, 394, 1002}
_TRANSIENT = {3, 32, 170, 202, 203, 225, 241, 242, 252, 279, 285, 286, 364, 373, 425, 439, 473, 499, 574, 999, 1001}
_DISK = {243, 596}
_ROW = {
    6, 25, 26, 27, 28, 33, 38, 41, 53, 69, 70, 72, 117, 128, 131, 134, 190, 321, 349, 376, 395, 407, 441, 467, 469,
    538, 577, 589, 634, 636, 653, 675, 676, 690, 691, 698, 704,
}  # fmt: skip
_CONFIG = {
    8, 10, 15, 16, 20, 35, 36, 42, 43, 44, 46, 47, 50, 51, 57, 60, 62, 63, 79, 80, 81, 82, 115, 164, 192, 193, 194,
    344, 457, 497, 516, 718,
}  # fmt: skip
_HINTS = {
    60: "create it again with CREATE TABLE, or restart the pipeline, which creates it",
    81: "create the database, or name another in storage_config",
    516: "check user and password in storage_config",
    497: "grant the user the privilege, or use another user",
    252: "inserts are too small or too frequent for the merges: raise insert_batch_size",
}
_COLUMN = re.compile(r"(?:column|Column|while converting column|name:) [`'\"]?([^`'\",:()]+?)[`'\"]?(?:[,:. )]|$)")
_POOL = re.compile(r"host='(?P<host>[^']*)', port=(?P<port>\d+)\).*\[Errno -?\d+\] (?P<reason>[^\"')]+)", re.DOTALL)
"""The message of urllib3, which contains the whole URL."""
_AGAIN = re.compile(r"executing HTTP request attempt (?!1\b)\d+")
"""The driver retries once when a connection breaks; the first request may have reached the server."""
_TLS = {
    "CERTIFICATE_VERIFY_FAILED": "the server's certificate is not signed by a known authority for this host",
    "WRONG_VERSION_NUMBER": "the server at this port does not speak TLS",
    "NO_CERTIFICATE_OR_CRL_FOUND": "ca_file holds no certificate",
}
"""OpenSSL error → its meaning for the config."""
_TRAILER = re.compile(r"\s*\(version [^)]*\)\s*.*$|\s*\(for url [^)]*\)\s*$", re.DOTALL)


def sort_error(error: Exception) -> GaussError:
    """The error as one of `clients/errors.py`, with the message of ClickHouse."""
    if isinstance(error, GaussError):
        return error
    code, text = error_code(error), str(error)
    start = text.find("DB::Exception: ")
    sentence = _TRAILER.sub("", text[start + 15 :] if start >= 0 else text).strip()
    if (broken := _POOL.search(sentence)) is not None:
        sentence = f"{broken['reason']} ({broken['host']}:{broken['port']})"
    message = f"ClickHouse: {sentence}"
    if code in _DISK or "No space left on device" in sentence:
        return DiskFull(message, hint="free some space on ClickHouse's disk; the insert is retried")
    if code in _ROW or isinstance(error, DataError):
        column = _COLUMN.search(sentence)
        return RowError(message, column=column[1] if column else "")
    if code in _CONFIG:
        return ConfigError(message, hint=_HINTS.get(code, "compare the table with `gauss schema`"))
    if code in _TRANSIENT:
        return Unavailable(message, hint=_HINTS.get(code, "it is retried"))
    if code is None and (trouble := next((words for words in _TLS if words in text), None)):
        return ConfigError(f"ClickHouse: {_TLS[trouble]}", hint="check host, port, secure, verify and ca_file")
    if code is None and _never_sent(error) and not _AGAIN.search(text):
        return Unavailable(
            f"ClickHouse does not answer: {sentence}", hint="check that the server is up, and its address"
        )
    if code in _UNCLEAR or isinstance(error, StreamFailureError | urllib3.exceptions.HTTPError | OSError):
        return Unclear(message, hint="the table is read to find out, then it is retried")
    if code is None and isinstance(error, ClickHouseError):
        return Unclear(
            f"ClickHouse's reply was lost: {sentence}", hint="the table is read to find out, then it is retried"
        )
    return StorageError(message, hint="see the server's log")


def error_code(error: BaseException) -> int | None:
    """The number of ClickHouse's error; None if the error is none of the server's."""
    code = getattr(error, "code", None)
    if isinstance(code, int):
        return code
    found = re.search(r"\bCode: (\d+)", str(error))
    return int(found[1]) if found else None


def _never_sent(error: BaseException | None) -> bool:
    """Whether there was no connection at all, so that nothing can have been executed."""
    while error is not None:
        if isinstance(error, urllib3.exceptions.NewConnectionError | ConnectionRefusedError):
            return True
        reason = getattr(error, "reason", None)
        error = error.__cause__ or error.__context__ or (reason if isinstance(reason, Exception) else None)
    return False


@contextmanager
def sorted_errors() -> Iterator[None]:
    """Converts errors of the driver by `sort_error`."""
    try:
        yield
    except (ClickHouseError, urllib3.exceptions.HTTPError, OSError) as error:
        raise sort_error(error) from error
