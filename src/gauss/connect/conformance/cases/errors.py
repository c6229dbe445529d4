"""Errors: typed, with the category that decides whether a retry helps."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pyarrow as pa

from gauss.connect.attempt import Attempt, close, typed
from gauss.connect.conformance.bench import SYNC, Bench
from gauss.connect.conformance.case import CASES, CaseFailed, NotApplicable, Role, check
from gauss.connect.conformance.cases.lifecycle import OPEN
from gauss.connect.conformance.datasets import TYPES, plain
from gauss.connect.conformance.destination_bench import DestinationBench
from gauss.connect.conformance.kit_sync import described
from gauss.connect.conformance.proxy import moved, server_of
from gauss.connect.conformance.scratch import MemoryState, Observed
from gauss.connect.conformance.source_bench import SourceBench
from gauss.connect.host import StreamRun
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from gauss.contracts.connector.lifecycle import JsonConfig, ValidationStatus
from gauss.contracts.connector.progress import CheckpointKind
from gauss.contracts.connector.spec import DestinationSpec
from gauss.contracts.connector.stream import Columns, StreamContext, SyncMode

TRANSIENT = (ErrorCategory.TRANSIENT_NETWORK, ErrorCategory.TRANSIENT_DB)


def _failure(bench: Bench, config: dict[str, Any]) -> ConnectorError | None:
    """The error of a connector that is opened and used with settings; None if it accepts them."""
    made = bench.make()
    try:
        typed(lambda: made.connector.open(bench.open_context(config)))
        found = typed(lambda: made.connector.validate(JsonConfig(config)))
        if bench.role is Role.SOURCE:
            typed(made.connector.discover)
        elif found.status == ValidationStatus.FAILED:  # it answers in words, without a category
            return ConnectorError.config("VALIDATION", found.message)
    except ConnectorError as error:
        return error
    finally:
        close(made.connector)
    return None


@CASES.both("errors.bad_settings", "A setting of a wrong type is a config error.", OPEN)
def refuses_bad_settings(bench: Bench) -> None:
    given = bench.target.config
    if not given:
        raise NotApplicable("the connector was given no settings")
    for key in given:
        error = _failure(bench, {**given, key: {"gauss_kit": [1]}})
        check(error is None or error.category is ErrorCategory.CONFIG, f"{key}: {described(error)}")


@CASES.both("errors.no_server", "If the server does not answer, the error is transient, so that it is retried.", OPEN)
def retries_without_a_server(bench: Bench) -> None:
    server_of(bench.target)
    error = _failure(bench, {**bench.target.config, **moved(bench.target, "127.0.0.1", 1)})
    if error is None:
        raise NotApplicable("open, validate and discover do not connect")
    check(error.category in TRANSIENT, described(error))


@CASES.both("errors.wrong_password", "A wrong password is an auth error, which is not retried.", OPEN)
def names_auth_errors(bench: Bench) -> None:
    server_of(bench.target)
    config = _wrong_password(bench)
    error = _failure(bench, config)
    if error is None:
        raise NotApplicable("the server accepts any password")
    check(error.category is ErrorCategory.AUTH, described(error))


def _wrong_password(bench: Bench) -> dict[str, Any]:
    for key, value in bench.target.config.items():
        if isinstance(value, str) and "://" in value and "@" in value:
            url = urlsplit(value)
            user, host = url.username or "", url.netloc.rpartition("@")[2]
            return {**bench.target.config, key: urlunsplit(url._replace(netloc=f"{user}:gauss-kit-wrong@{host}"))}
        if key == "password":
            return {**bench.target.config, key: "gauss-kit-wrong"}
    raise NotApplicable("its settings have no password")


@CASES.source("errors.unknown_stream", "A stream that does not exist is a config, schema or permission error.")
def refuses_unknown_streams(bench: SourceBench) -> None:
    if len(bench.catalog().streams) < 2:
        raise NotApplicable("the source has one stream only")
    context = StreamContext("gk_nowhere.gk_nothing", Columns([]), SyncMode.FULL_REFRESH)
    sync = bench.prepare(bench.stream(), bench.folder())
    run = StreamRun(context, MemoryState(), Observed(), pipeline=SYNC)
    sides = sync.side(CheckpointKind.SOURCE), sync.side(CheckpointKind.DEST)
    error = Attempt(run, *sides)().error
    if error is None:
        raise CaseFailed("it was read")
    wanted = (ErrorCategory.CONFIG, ErrorCategory.SCHEMA, ErrorCategory.PERMISSION)
    check(error.category in wanted, described(error))


@CASES.destination("errors.unsupported_mode", "A write mode that the destination does not have is a config error.")
def refuses_modes(bench: DestinationBench) -> None:
    spec = bench.target.spec
    missing = {"append", "replace", "upsert"} - (spec.writes if isinstance(spec, DestinationSpec) else frozenset())
    if spec is None or not missing:
        raise NotApplicable("it has all write modes" if spec else "a class or module does not say which modes it has")
    for mode in sorted(missing):
        result = bench.try_write(plain(5), bench.stream_name("mode"), write=mode, mode="full_refresh").result
        if result.error is None:
            raise CaseFailed(f"{mode} succeeded")
        check(result.error.category is ErrorCategory.CONFIG, f"{mode}: {described(result.error)}")


@CASES.destination("errors.unsupported_type", "A type that the destination does not take is a schema or config error.")
def refuses_types(bench: DestinationBench) -> None:
    bench.needs_managed()
    with bench.opened() as found:
        for name, (kind, _) in TYPES.items():
            try:
                typed(lambda kind=kind: found.connector.landed(pa.schema([("a", kind)])))  # type: ignore[misc]
            except ConnectorError as error:
                good = error.category in (ErrorCategory.CONFIG, ErrorCategory.SCHEMA)
                check(good, f"{name}: {described(error)}")
