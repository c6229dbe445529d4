from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from gauss.contracts.connector.errors import BackoffClass, CommitState, ConnectorError, ErrorCategory, ErrorScope

MADE: dict[str, Callable[[], ConnectorError]] = {
    "config": lambda: ConnectorError.config("C", "m"),
    "auth": lambda: ConnectorError.auth("C", "m"),
    "permission": lambda: ConnectorError.permission("C", "m"),
    "rate_limit": lambda: ConnectorError.rate_limit("C", "m", 1_500),
    "transient_network": lambda: ConnectorError.transient_network("C", "m"),
    "transient_db": lambda: ConnectorError.transient_db("C", "m"),
    "data": lambda: ConnectorError.data("C", "m"),
    "schema": lambda: ConnectorError.schema("C", "m"),
    "internal": lambda: ConnectorError.internal("C", "m"),
}
RETRYABLE = {"rate_limit", "transient_network", "transient_db"}


@pytest.mark.parametrize("name", MADE)
def test_constructor_sets_whether_its_category_is_retryable(name: str) -> None:
    error = MADE[name]()
    assert error.category == name
    assert error.retryable == error.safe_to_retry == (name in RETRYABLE)
    assert error.scope is (ErrorScope.RECORD if name == "data" else ErrorScope.STREAM)
    assert error.backoff_class is (BackoffClass.SLOW if name == "rate_limit" else BackoffClass.NORMAL)


@pytest.mark.parametrize("category", ErrorCategory)
@pytest.mark.parametrize("asked", [True, False])
def test_retryable_can_be_set_only_for_data_and_schema_errors(category: ErrorCategory, asked: bool) -> None:
    error = ConnectorError(category, "C", "m", retryable=asked)
    open_ = category in (ErrorCategory.DATA, ErrorCategory.SCHEMA)
    assert error.retryable == (asked if open_ else category in RETRYABLE)


def test_every_category_has_a_constructor() -> None:
    assert set(MADE) == {each.value for each in ErrorCategory}


def test_error_with_an_unknown_commit_is_not_safe_to_retry() -> None:
    error = ConnectorError.transient_db("C", "m", commit_state=CommitState.AFTER_COMMIT_UNKNOWN)
    assert error.retryable and not error.safe_to_retry


@pytest.mark.parametrize("name", MADE)
def test_json_form_decodes_to_the_same_error(name: str) -> None:
    error = MADE[name]()
    error.details = {"line": 3}
    found, corrected = ConnectorError.from_json(error.to_json())
    assert found.to_json() == error.to_json() and not corrected
    assert list(json.loads(error.to_json())) == [
        "category", "scope", "code", "message", "retryable", "retry_after_ms", "backoff_class", "safe_to_retry",
        "commit_state", "details",
    ]  # fmt: skip


@pytest.mark.parametrize("name", [name for name in MADE if name not in ("data", "schema")])
def test_retryable_flag_that_contradicts_the_category_is_corrected(name: str) -> None:
    form = json.loads(MADE[name]().to_json())
    form["retryable"] = form["safe_to_retry"] = not form["retryable"]
    found, corrected = ConnectorError.from_json(json.dumps(form).encode())
    assert found.retryable == (name in RETRYABLE)
    assert name in corrected and not found.safe_to_retry
