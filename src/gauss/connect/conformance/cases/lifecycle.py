"""Opening, validating, discovering and closing."""

from __future__ import annotations

from typing import Any

from gauss.connect.attempt import typed
from gauss.connect.conformance.bench import Bench
from gauss.connect.conformance.case import CASES, CaseFailed, check
from gauss.connect.conformance.kit_sync import described
from gauss.connect.conformance.source_bench import SourceBench
from gauss.contracts.connector.arrow_types import arrow_schema
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.lifecycle import (
    PROTOCOL_VERSION,
    Catalog,
    Feature,
    OpenInfo,
    ValidationResult,
    ValidationStatus,
)

OPEN = ("wasm.gate", "lifecycle.open", "lifecycle.protocol_version")


def _opened(bench: Bench) -> Any:
    made = bench.make()
    try:
        info = typed(lambda: made.connector.open(bench.open_context()))
    except ConnectorError as error:
        raise CaseFailed(f"open failed: {described(error)}") from None
    return made.connector, info


def _closed(connector: Any, times: str = "close") -> None:
    try:
        connector.close()
    except Exception as error:
        raise CaseFailed(f"{times} raised {type(error).__name__}: {error}") from None


@CASES.both("lifecycle.open", "open returns an OpenInfo.", ("wasm.gate",))
def opens(bench: Bench) -> None:
    try:
        connector, info = _opened(bench)
    except CaseFailed as error:
        if "WRONG_PROTOCOL" in error.found:  # of a module: the next case names it
            return
        raise
    try:
        check(isinstance(info, OpenInfo), f"open returned {type(info).__name__}")
    finally:
        connector.close()


@CASES.both("lifecycle.protocol_version", f'open answers protocol_version "{PROTOCOL_VERSION}".', OPEN[:2])
def speaks_the_protocol(bench: Bench) -> None:
    try:
        connector, info = _opened(bench)
    except CaseFailed as error:
        raise CaseFailed(error.found.removeprefix("open failed: ")) from None
    connector.close()
    check(info.protocol_version == PROTOCOL_VERSION, f'protocol_version "{info.protocol_version}"')


@CASES.both(
    "lifecycle.features", "open names known features, none twice, and a positive default_max_batch_bytes.", OPEN
)
def names_features(bench: Bench) -> None:
    info = bench.info()
    strange = [str(each) for each in info.features if each not in list(Feature)]
    check(not strange, f"unknown features {', '.join(strange)}")
    check(len(set(info.features)) == len(info.features), "a feature is named twice")
    check(info.default_max_batch_bytes > 0, f"default_max_batch_bytes = {info.default_max_batch_bytes}")


@CASES.both("lifecycle.close_twice", "close can be called again.", OPEN)
def closes_twice(bench: Bench) -> None:
    connector, _ = _opened(bench)
    _closed(connector)
    _closed(connector, "the second close")


@CASES.both("lifecycle.opens_again", "A new instance can be opened after another one was closed.", OPEN)
def opens_again(bench: Bench) -> None:
    for _ in range(2):
        connector, _info = _opened(bench)
        _closed(connector)


@CASES.both("lifecycle.two_instances", "Two instances can be open at once.", OPEN)
def opens_side_by_side(bench: Bench) -> None:
    first, _ = _opened(bench)
    try:
        second, _ = _opened(bench)
        _closed(second)
    finally:
        _closed(first)


@CASES.both("lifecycle.validate", "validate answers success or warning for working settings.", OPEN)
def validates(bench: Bench) -> None:
    connector, _ = _opened(bench)
    try:
        found = typed(lambda: connector.validate(bench.open_context().config))
    except ConnectorError as error:
        raise CaseFailed(f"validate failed: {described(error)}") from None
    finally:
        _closed(connector)
    check(isinstance(found, ValidationResult), f"validate returned {type(found).__name__}")
    check(found.status != ValidationStatus.FAILED, f"validate answered failed: {found.message}")


@CASES.source("lifecycle.discover", "discover lists streams with unique names, known types and modes.", OPEN)
def discovers(bench: SourceBench) -> None:
    catalog = _catalog(bench)
    check(isinstance(catalog, Catalog), f"discover returned {type(catalog).__name__}")
    names = [each.name for each in catalog.streams]
    check(len(set(names)) == len(names), "two streams have the same name")
    for each in catalog.streams:
        try:
            columns = arrow_schema(each.schema).names
        except ConnectorError as error:
            raise CaseFailed(f"stream {each.name}: {error.message}") from None
        check(len(set(columns)) == len(columns), f"stream {each.name}: two columns have the same name")
        check(each.supported_sync_modes, f"stream {each.name} has no supported_sync_modes")
        gone = [name for name in each.primary_key or [] if name not in columns]
        check(not gone, f"stream {each.name}: its primary_key {', '.join(gone)} is no column")


@CASES.source(
    "lifecycle.discover_twice", "discover answers the same when nothing has changed.", ("lifecycle.discover",)
)
def discovers_the_same(bench: SourceBench) -> None:
    first, second = _shape(_catalog(bench)), _shape(_catalog(bench))
    check(first == second, "the second catalog differs from the first")


def _catalog(bench: SourceBench) -> Catalog:
    try:
        return typed(bench.catalog)
    except ConnectorError as error:
        raise CaseFailed(f"discover failed: {described(error)}") from None


def _shape(catalog: Catalog) -> list[Any]:
    """Without estimates, which may change."""
    return [(each.name, each.schema, each.supported_sync_modes, each.primary_key) for each in catalog.streams]
