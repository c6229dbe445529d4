"""Secrets at rest: sealed with the key of a file that is made once, and only where they belong."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.store.configs import Config, Kind
from gauss.fleet.store.sealing import KEY_VARIABLE, Seal, key_file, read_key
from gauss.model.errors import ConfigError, StorageError

SECRET = "correct horse battery staple"


def test_a_secret_is_nowhere_in_the_store_in_plain_text(tmp_path: Path, key_path: Path) -> None:
    store = FleetStore(tmp_path / "fleet.db", key_path)
    pipeline = store.pipelines.create("orders", "", who="me")
    store.configs.change(pipeline.id, Kind.KAFKA, "me", lambda _: Config({"brokers": "b:1"}, {"saslPassword": SECRET}))
    found = store.configs.get(pipeline.id, Kind.KAFKA)
    assert found is not None
    assert found.secrets == {"saslPassword": SECRET}
    store.close()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def test_a_sealed_value_opens_only_in_its_own_place() -> None:
    seal = Seal(bytes(32))
    sealed = seal.close({"a": SECRET}, "p/kafka")
    assert sealed is not None
    assert seal.open(sealed, "p/kafka") == {"a": SECRET}
    for moved in (sealed, sealed[:-1], b""):
        with pytest.raises(StorageError, match="can't be decrypted"):
            seal.open(moved, "q/kafka")


def test_a_wrong_key_is_reported_when_the_store_is_opened(
    opened: Callable[[], FleetStore], address: str | Path, tmp_path: Path
) -> None:
    opened()
    with pytest.raises(ConfigError, match="is not the one that this store's secrets are sealed with"):
        FleetStore(address, _other_key(tmp_path))


def _other_key(tmp_path: Path) -> Path:
    other = tmp_path / "other.key"
    read_key(other, create=True)
    return other


def test_a_missing_key_of_a_store_in_use_is_not_made_anew(opened: Callable[[], FleetStore], key_path: Path) -> None:
    opened()
    key_path.unlink()
    with pytest.raises(ConfigError, match="is missing") as caught:
        opened()
    assert "copy it from the machine" in caught.value.hint
    assert not key_path.exists()


def test_the_key_file_is_made_once_and_private(key_path: Path) -> None:
    start, keys = threading.Barrier(8), set[bytes]()

    def read() -> None:
        start.wait()
        keys.add(read_key(key_path, create=True))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 1
    assert key_path.stat().st_mode & 0o777 == 0o600
    assert key_path.parent.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in key_path.parent.iterdir()] == [key_path.name]


def test_a_bad_key_file_is_reported(key_path: Path) -> None:
    read_key(key_path, create=True)
    key_path.chmod(0o644)
    with pytest.raises(ConfigError, match="can be read by other users"):
        read_key(key_path, create=True)
    key_path.chmod(0o600)
    key_path.write_text("not a key")
    with pytest.raises(ConfigError, match="is not a key file"):
        read_key(key_path, create=True)


def test_the_key_file_is_named_by_option_then_variable_then_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    assert key_file(None) == tmp_path / ".config" / "gauss" / "fleet.key"
    monkeypatch.setenv(KEY_VARIABLE, "/keys/a")
    assert key_file(None) == Path("/keys/a")
    assert key_file(Path("/keys/b")) == Path("/keys/b")
