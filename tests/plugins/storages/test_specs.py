"""Valid and invalid settings of storages."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gauss import registry
from gauss.contracts.storage import Capacity, ReadMode, StorageSpec, WriteFull


def _spec(name: str) -> StorageSpec:
    return registry.spec(StorageSpec, name)


def _capacity(name: str, config: dict[str, Any]) -> Capacity:
    spec = _spec(name)
    return spec.capacity(spec.validate(config))


def test_ring_is_bounded_in_records_and_bytes_by_default() -> None:
    assert _capacity("memory", {}) == Capacity(65_536, 256 << 20, WriteFull.BLOCK)


def test_unlimited_ring_is_still_bounded_in_bytes() -> None:
    config = {"storage_size": "unlimited", "storage_bytes": "1MiB", "write_full": "drop"}
    assert _capacity("memory", config) == Capacity(None, 1 << 20, WriteFull.DROP)


def test_file_is_bounded_by_max_bytes_alone() -> None:
    assert _capacity("file", {}) == Capacity(None, None, WriteFull.BLOCK)
    assert _capacity("file", {"max_bytes": "1GiB"}).bytes == 1 << 30


@pytest.mark.parametrize("name", ["memory", "file"])
def test_logs_are_read_by_offset_latest_and_query(name: str) -> None:
    spec = _spec(name)
    assert spec.read_modes(spec.validate({})) == {ReadMode.OFFSET, ReadMode.LATEST, ReadMode.QUERY}


def test_only_files_survive_the_engine() -> None:
    assert (_spec("memory").durable, _spec("file").durable) == (False, True)


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("memory", {"storage_size": 0}, "greater than 0"),
        ("memory", {"storage_size": "many"}, "unlimited"),
        ("memory", {"storage_bytes": "lots"}, "64MiB"),
        ("memory", {"mode": "tabel"}, "ring"),
        ("memory", {"write_full": "wait"}, "block"),
        ("memory", {"data_dir": "x"}, "not permitted"),
        ("file", {"storage_size": 5}, "not permitted"),
        ("file", {"framing": "avro_container"}, "length_prefixed"),
        ("file", {"framing": "newlin"}, 'did you mean "newline"'),
        ("file", {"framing": "newline", "frame_size": 4}, 'frame_size is not a parameter of framing "newline"'),
        ("file", {"framing": "fixed_size"}, "frame_size"),
        ("file", {"prefix_type": "u8"}, "u32be"),
        ("file", {"fsync": "sometimes"}, "interval"),
        ("file", {"retention": 5}, "7d"),
        ("file", {"partition_by": "hour"}, "date"),
    ],
)
def test_fault_is_named(name: str, config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        _spec(name).validate(config)
    assert message in str(caught.value)


TABLE = {"mode": "table", "format": "json", "key_field": "symbol"}


def test_table_is_bounded_in_bytes_and_refuses_new_keys_when_full_by_default() -> None:
    assert _capacity("memory", TABLE) == Capacity(None, 256 << 20, WriteFull.DROP)
    assert _capacity("memory", {**TABLE, "storage_size": 10, "write_full": "overwrite"}).records == 10


def test_table_is_read_by_snapshot_subscribe_and_query() -> None:
    spec = _spec("memory")
    assert spec.read_modes(spec.validate(TABLE)) == {ReadMode.SNAPSHOT, ReadMode.SUBSCRIBE, ReadMode.QUERY}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"mode": "table", "key_field": "symbol"}, '"format" is missing'),
        ({"mode": "table", "format": "json"}, '"key_field" is missing'),
        ({**TABLE, "write_full": "block"}, "no reader makes room"),
        ({**TABLE, "delete_when": ".closed =="}, "unexpected the end"),
        ({**TABLE, "storage_size": 0}, "greater than 0"),
        ({"key_field": "symbol"}, "belongs to a table"),
        ({"delete_when": ".a"}, "belongs to a table"),
    ],
)
def test_table_refuses_what_makes_no_sense(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        _spec("memory").validate(config)
