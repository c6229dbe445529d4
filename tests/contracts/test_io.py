from __future__ import annotations

import pytest
from pydantic import ValidationError

from gauss.contracts.io import FRAMING_KEYS, RecordIO, StreamIO
from gauss.contracts.plugin import Bytes, Millis, PluginConfig


def test_stream_splits_framing_from_its_parameters() -> None:
    stream = StreamIO.model_validate({"format": "json", "framing": "own", "delimiter": "|", "escape": "\\"})
    assert (stream.format, stream.framing) == ("json", "own")
    assert stream.parameters() == {"delimiter": "|", "escape": "\\"}


def test_stream_without_framing_is_refused() -> None:
    with pytest.raises(ValidationError):
        StreamIO.model_validate({"format": "json"})


@pytest.mark.parametrize("key", FRAMING_KEYS)
def test_records_refuse_a_framing_and_name_the_key(key: str) -> None:
    with pytest.raises(ValidationError, match="has no place on a transform") as raised:
        RecordIO.model_validate({"format": "json", key: "x"})
    assert raised.value.errors()[0]["ctx"] == {"key": key}


class Timed(PluginConfig):
    wait: Millis = 1_000
    pause: Millis | None = None
    size: Bytes = 0


def test_units_survive_json() -> None:
    timed = Timed.model_validate({"wait": "2.5s", "pause": "1m", "size": "64KiB"})
    assert (timed.wait, timed.pause, timed.size) == (2_500, 60_000, 65_536)
    assert Timed.model_validate_json(timed.model_dump_json()) == timed
    assert Timed.model_validate(timed.model_dump(mode="json")) == timed


def test_bare_number_is_no_duration() -> None:
    with pytest.raises(ValidationError, match="expected a duration"):
        Timed.model_validate({"wait": 5})
