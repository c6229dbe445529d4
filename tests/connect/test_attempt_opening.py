"""Checks of an attempt when it opens connectors, and errors of their close."""

from __future__ import annotations

from typing import Any

import pytest

from gauss.connect.host import StreamRun
from gauss.contracts.connector.lifecycle import Feature, OpenContext, OpenInfo
from gauss.contracts.connector.stream import Append, StreamContext, SyncMode, Upsert, WriteMode
from helpers.attempts import Collecting, Numbers, attempt
from helpers.connectors import OneStream


class Capturing(Numbers):
    def open(self, context: OpenContext) -> OpenInfo:
        super().open(context)
        return OpenInfo(features=[Feature.CDC])


class Deleting(Collecting):
    def open(self, context: OpenContext) -> OpenInfo:
        super().open(context)
        return OpenInfo(features=[Feature.CDC])


@pytest.mark.parametrize(
    ("source", "destination", "write", "code"),
    [
        (Numbers, Collecting, Append(), "NO_CDC"),
        (Capturing, Collecting, Append(), ""),
        (Capturing, Collecting, Upsert(["n"]), "NO_CDC"),
        (Capturing, Deleting, Upsert(["n"]), ""),
    ],
)
def test_cdc_stream_needs_the_cdc_feature_of_its_connectors(
    source: Any, destination: Any, write: WriteMode, code: str
) -> None:
    both = OneStream()
    stream = StreamContext("users", both.run.stream.schema, SyncMode.CDC, write_mode=write)
    both.run = StreamRun(stream, both.state, both.seen, pipeline="p")
    made, outcome = attempt(source, destination, both)
    assert (outcome.error.code if outcome.error else "") == code
    made.closed()


def test_another_protocol_version_is_refused() -> None:
    class Newer(Numbers):
        def open(self, context: OpenContext) -> OpenInfo:
            super().open(context)
            return OpenInfo(protocol_version="2")

    made, outcome = attempt(Newer)
    assert outcome.error is not None and outcome.error.code == "WRONG_PROTOCOL"
    made.closed()


def test_error_of_close_is_logged_and_the_result_kept(caplog: pytest.LogCaptureFixture) -> None:
    class Clumsy(Numbers):
        def close(self) -> None:
            super().close()
            raise OSError("close")

    made, outcome = attempt(Clumsy)
    assert outcome.error is None and "close failed" in caplog.text
    made.closed()
