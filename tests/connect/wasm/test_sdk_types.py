"""The guest kit has the host's JSON form of every protocol type: `probe` reads a value and writes it again."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gauss.connect.wasm.guest import Guest, read_module
from gauss.contracts.connector.errors import CommitState, ConnectorError, ErrorCategory
from gauss.contracts.connector.lifecycle import JsonConfig, OpenContext, OpenInfo, ValidationResult, ValidationStatus
from helpers.connectors import OneStream

ROOT = Path(__file__).parents[3]
MODULES = Path(os.environ.get("GAUSS_SDK_MODULES", ROOT / "sdk/modules"))
GOLDEN = ROOT / "tests/golden/connector"
KINDS = {"metric_gauge": "metric_value", "metric_histogram": "metric_value", "stream_context_least": "stream_context"}


def kind_of(golden: str) -> str:
    """The type of a golden file."""
    if golden in KINDS:
        return KINDS[golden]
    if golden.startswith("write_summary"):
        return "write_summary"
    first = golden.split("_", maxsplit=1)[0]
    return {"cursor": "cursor", "schema": "schema", "write": "write_mode"}.get(first, golden)


@pytest.fixture(scope="module")
def probe() -> Guest:
    guest = Guest(read_module(MODULES / "probe.wasm"), "probe.wasm", OneStream().source)
    guest.call("rb_open", OpenContext(JsonConfig({}), "probe", "1"), OpenInfo)
    return guest


def written(probe: Guest, kind: str, text: str) -> ValidationResult:
    return probe.call("rb_validate", JsonConfig({"type": kind, "text": text}), ValidationResult)


def again(probe: Guest, kind: str, value: Any) -> Any:
    found = written(probe, kind, json.dumps(value))
    assert found.status is ValidationStatus.SUCCESS, found.message
    return json.loads(found.message)


@pytest.mark.parametrize("name", sorted(each.stem for each in GOLDEN.glob("*.json")))
def test_every_golden_value_is_read_and_written_unchanged(probe: Guest, name: str) -> None:
    value = json.loads((GOLDEN / f"{name}.json").read_text())
    assert again(probe, kind_of(name), value) == value


def test_missing_keys_get_the_defaults_of_the_host_and_unknown_ones_are_ignored(probe: Guest) -> None:
    least = json.loads((GOLDEN / "stream_context_least.json").read_text())
    given = {"stream_name": "s", "schema": {"columns": []}, "sync_mode": "full_refresh", "later": {"x": 1}}
    assert again(probe, "stream_context", given) == least
    assert again(probe, "open_info", {}) == json.loads(msgspec.json.encode(OpenInfo()))


@pytest.mark.parametrize("category", list(ErrorCategory))
@pytest.mark.parametrize("state", [None, *CommitState])
def test_error_constructors_equal_those_of_the_host(
    probe: Guest, category: ErrorCategory, state: CommitState | None
) -> None:
    given = {"category": category, "code": "C", "message": 'a "b" \n ü'}
    expected = getattr(ConnectorError, category)("C", given["message"], commit_state=state)
    assert again(probe, "constructor", given | {"commit_state": state}) == json.loads(expected.to_json())


def test_every_field_of_an_error_is_kept(probe: Guest) -> None:
    error = ConnectorError.rate_limit("SLOW", "later", 250, details={"a": [1, None, "x"]}, safe_to_retry=False)
    assert again(probe, "error", json.loads(error.to_json())) == json.loads(error.to_json())


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(value=VALUES, spread=st.booleans(), ascii_only=st.booleans())
def test_json_is_parsed_and_written_without_loss(probe: Guest, value: Any, spread: bool, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=2 if spread else None)
    found = written(probe, "json", text)
    assert found.status is ValidationStatus.SUCCESS, found.message
    assert json.loads(found.message) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1,]", '{"a":}', '{"a" 1}', "{1:2}", "01", "1.", "-", "1e", "+1", "nul", "1 2", "'a'", "\0"),
        *('"', '"\\x"', '"\\u12"', '"\\ud800"', '"\\ud800\\u0041"', '"\x01"', "[" * 200 + "]" * 200),
    ],
)
def test_invalid_json_is_refused_with_its_position(probe: Guest, text: str) -> None:
    found = written(probe, "json", text)
    assert found.status is ValidationStatus.FAILED and "at byte" in found.message


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("stream_context", '{"stream_name":5}', "stream_name: expected a string, found a number"),
        ("stream_context", "[]", "expected an object, found an array"),
        ("open_context", '{"config":{"json":1},"connector_id":"a"}', "connector_version: missing"),
        ("open_context", '{"config":{"xml":1}}', "config: expected a config as json, found xml"),
        ("cursor", '{"int64":9223372036854775808}', "expected an integer from -9223372036854775808"),
        ("cursor", '{"int64":1.5}', "found another number"),
        ("cursor", '"int64"', "expected a cursor value, found int64"),
        ("schema", '{"arrow_ipc_schema":"A"}', "expected base64"),
        ("write_mode", '{"append":1}', "found append"),
        ("read_summary", '{"records_read":-1}', "records_read: expected an integer from 0"),
        ("validation", '{"status":"good"}', "status: expected one of success, warning, failed, found good"),
    ],
)
def test_value_of_the_wrong_type_is_refused_with_its_key(probe: Guest, kind: str, text: str, message: str) -> None:
    found = written(probe, kind, text)
    assert found.status is ValidationStatus.FAILED and message in found.message


@given(data=st.binary(max_size=50))
def test_bytes_are_encoded_as_base64(probe: Guest, data: bytes) -> None:
    value = {"arrow_ipc_schema": base64.b64encode(data).decode()}
    assert again(probe, "schema", value) == value


def test_config_error_names_the_key_and_no_value(probe: Guest) -> None:
    with pytest.raises(ConnectorError) as caught:
        probe.call("rb_validate", JsonConfig({"type": {"password": "secret"}}), ValidationResult)
    assert (caught.value.code, caught.value.category) == ("BAD_CONFIG", ErrorCategory.CONFIG)
    assert caught.value.message == "type: expected a string, found an object"
    with pytest.raises(ConnectorError, match="type: missing"):
        probe.call("rb_validate", JsonConfig({}), ValidationResult)
