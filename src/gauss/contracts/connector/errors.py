"""Errors of connectors: typed, scoped, with hints for a retry.

| category | retryable |
|---|---|
| config, auth, permission, internal | never |
| rate_limit, transient_network, transient_db | always |
| data, schema | as the policy says |
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Self

import msgspec

from gauss.contracts.connector import json_form
from gauss.model.errors import GaussError


class ErrorCategory(StrEnum):
    CONFIG = "config"
    AUTH = "auth"
    PERMISSION = "permission"
    RATE_LIMIT = "rate_limit"
    TRANSIENT_NETWORK = "transient_network"
    TRANSIENT_DB = "transient_db"
    DATA = "data"
    SCHEMA = "schema"
    INTERNAL = "internal"

    @property
    def retryable(self) -> bool | None:
        """Whether errors of the category can be retried; None if it depends on the policy."""
        if self in (ErrorCategory.DATA, ErrorCategory.SCHEMA):
            return None
        return self in (ErrorCategory.RATE_LIMIT, ErrorCategory.TRANSIENT_NETWORK, ErrorCategory.TRANSIENT_DB)


class ErrorScope(StrEnum):
    STREAM = "stream"
    BATCH = "batch"
    RECORD = "record"


class BackoffClass(StrEnum):
    FAST = "fast"
    NORMAL = "normal"
    SLOW = "slow"


class CommitState(StrEnum):
    BEFORE_COMMIT = "before_commit"
    AFTER_COMMIT_UNKNOWN = "after_commit_unknown"
    AFTER_COMMIT_CONFIRMED = "after_commit_confirmed"


class _ErrorJson(msgspec.Struct, frozen=True):
    """The JSON form of a ConnectorError."""

    category: ErrorCategory
    scope: ErrorScope
    code: str
    message: str
    retryable: bool
    retry_after_ms: json_form.U64 | None = None
    backoff_class: BackoffClass = BackoffClass.NORMAL
    safe_to_retry: bool = False
    commit_state: CommitState | None = None
    details: Any = None


FENCED = "FENCED"
"""The code of the error of a run, or an attempt, that was replaced by a later one."""


class ConnectorError(GaussError):
    """An error of a connector, or of the host towards one. Made by the constructor of its category."""

    def __init__(
        self,
        category: ErrorCategory,
        code: str,
        message: str,
        *,
        scope: ErrorScope = ErrorScope.STREAM,
        retryable: bool = False,
        retry_after_ms: int | None = None,
        backoff_class: BackoffClass = BackoffClass.NORMAL,
        safe_to_retry: bool | None = None,
        commit_state: CommitState | None = None,
        details: Any = None,
        hint: str = "",
    ) -> None:
        """`retryable` counts only where the category leaves it open. `safe_to_retry` defaults to `retryable`, unless it
        is unknown whether a commit took place."""
        super().__init__(message, hint=hint)
        self.category = category
        self.code = code
        self.scope = scope
        self.retryable = retryable if category.retryable is None else category.retryable
        self.retry_after_ms = retry_after_ms
        self.backoff_class = backoff_class
        unknown = commit_state is CommitState.AFTER_COMMIT_UNKNOWN
        self.safe_to_retry = self.retryable and not unknown if safe_to_retry is None else safe_to_retry
        self.commit_state = commit_state
        self.details = details

    @classmethod
    def config(cls, code: str, message: str, **more: Any) -> Self:
        """The config is wrong; a retry does not help."""
        return cls(ErrorCategory.CONFIG, code, message, **more)

    @classmethod
    def auth(cls, code: str, message: str, **more: Any) -> Self:
        """The credentials are refused; a retry does not help until they change."""
        return cls(ErrorCategory.AUTH, code, message, **more)

    @classmethod
    def permission(cls, code: str, message: str, **more: Any) -> Self:
        """The credentials are accepted, but do not allow what was tried."""
        return cls(ErrorCategory.PERMISSION, code, message, **more)

    @classmethod
    def rate_limit(cls, code: str, message: str, retry_after_ms: int | None = None, **more: Any) -> Self:
        """The peer asks to come back later."""
        given = {"backoff_class": BackoffClass.SLOW, **more}
        return cls(ErrorCategory.RATE_LIMIT, code, message, retry_after_ms=retry_after_ms, **given)

    @classmethod
    def transient_network(cls, code: str, message: str, **more: Any) -> Self:
        """The connection failed."""
        return cls(ErrorCategory.TRANSIENT_NETWORK, code, message, **more)

    @classmethod
    def transient_db(cls, code: str, message: str, **more: Any) -> Self:
        """The database failed for now: a restart, a deadlock, too many connections."""
        return cls(ErrorCategory.TRANSIENT_DB, code, message, **more)

    @classmethod
    def data(cls, code: str, message: str, **more: Any) -> Self:
        """A record can't be read or written; `on_data_error` decides."""
        return cls(ErrorCategory.DATA, code, message, **{"scope": ErrorScope.RECORD, **more})

    @classmethod
    def schema(cls, code: str, message: str, **more: Any) -> Self:
        """The schemas do not fit; `schema_evolution` decides."""
        return cls(ErrorCategory.SCHEMA, code, message, **more)

    @classmethod
    def internal(cls, code: str, message: str, **more: Any) -> Self:
        """A bug, or a state that should not exist."""
        return cls(ErrorCategory.INTERNAL, code, message, **more)

    def to_json(self) -> bytes:
        names = _ErrorJson.__struct_fields__
        return msgspec.json.encode(_ErrorJson(**{name: getattr(self, name) for name in names}))

    @classmethod
    def from_json(cls, data: bytes) -> tuple[Self, str]:
        """The error, and what was corrected of it (empty: nothing): a connector can't decide whether its category is
        retried. Raises msgspec's DecodeError or ValidationError."""
        found = json_form.decode(data, _ErrorJson)
        given = {name: getattr(found, name) for name in _ErrorJson.__struct_fields__}
        made = cls(given.pop("category"), given.pop("code"), given.pop("message"), **given)
        if made.retryable == found.retryable:
            return made, ""
        made.safe_to_retry = made.retryable and found.safe_to_retry
        state = "always" if made.retryable else "never"
        return made, f"errors of category {made.category} are {state} retryable, found retryable = {found.retryable}"


def fenced(stream: str, generation: int, newest: int) -> ConnectorError:
    """The error of a run that was replaced by a newer one. The host of a run that is the newest one, but has lost its
    state, goes on above `newest`."""
    return ConnectorError.internal(
        FENCED,
        f"run {generation} of stream {stream} was replaced by run {newest}, and may write no more",
        hint="this run must stop; the newer one continues",
        details={"newest": newest},
    )
