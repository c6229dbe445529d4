"""Encrypts secrets in the store with the key of a file that every machine of the fleet has."""

from __future__ import annotations

import base64
import binascii
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gauss.model.errors import ConfigError, StorageError
from gauss.model.files import PRIVATE_FILE, make_private

KEY_VARIABLE = "GAUSS_KEY_FILE"
_KEY_BYTES = 32
_NONCE_BYTES = 12


def key_file(given: Path | None) -> Path:
    """The key file: the given one, else that of `GAUSS_KEY_FILE`, else the default in the home directory."""
    if given is not None:
        return given
    if named := os.environ.get(KEY_VARIABLE):
        return Path(named)
    return Path.home() / ".config" / "gauss" / "fleet.key"


class Seal:
    """Seals secrets with one key. A sealed value can be opened only at the place it was sealed for."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def close(self, plain: Mapping[str, str], place: str) -> bytes | None:
        """None if there is nothing to seal."""
        if not plain:
            return None
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, json.dumps(plain).encode(), place.encode())

    def open(self, sealed: bytes | None, place: str) -> dict[str, str]:
        """Raises StorageError if the value was changed or moved, or another key sealed it."""
        if sealed is None:
            return {}
        try:
            plain = self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], place.encode())
        except (InvalidTag, ValueError):
            raise StorageError(
                f"the secrets of {place} can't be decrypted: they were changed, or sealed with another key",
                hint="save them again",
            ) from None
        opened: dict[str, str] = json.loads(plain)
        return opened


def read_key(path: Path, *, create: bool) -> bytes:
    """The key in a file. `create`: a missing file is made; of several processes that try at once, one succeeds."""
    try:
        if create and not path.exists():
            _create(path)
        text = path.read_bytes()
        if path.stat().st_mode & 0o077:
            raise ConfigError(
                f"the key file {path} can be read by other users", hint=f"make it private: chmod 600 {path}"
            )
    except FileNotFoundError:
        raise ConfigError(
            f"the key file {path} is missing, and the store has secrets that it would open",
            hint="copy it from the machine on which the store was made, or name it with --key-file",
        ) from None
    except OSError as error:
        raise ConfigError(
            f"the key file {path} can't be used: {error.strerror}", hint="name another one with --key-file"
        ) from error
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != _KEY_BYTES:
        raise ConfigError(
            f"{path} is not a key file: expected {_KEY_BYTES} bytes as base64",
            hint="copy the key file of the store again",
        )
    return key


def _create(path: Path) -> None:
    """A complete file appears at once, and never replaces another."""
    if not path.parent.exists():
        make_private(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(base64.b64encode(secrets.token_bytes(_KEY_BYTES)) + b"\n")
            file.flush()
            os.fsync(descriptor)
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass  # another process was faster
    finally:
        temporary.unlink()
