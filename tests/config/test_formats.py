"""Look-up of formats by name."""

from __future__ import annotations

import pytest

from gauss.config.formats import named_format, requested_format
from gauss.config.spec import FormatDef, Pipeline
from gauss.model.errors import ConfigError

PIPELINE = Pipeline(formats=[FormatDef(name="lines", plugin="json")])


def test_entry_comes_before_a_plugin_of_the_same_name() -> None:
    pipeline = Pipeline(formats=[FormatDef(name="msgpack", plugin="json")])
    assert named_format(pipeline, "msgpack").decode(b'{"a": 1}') == {"a": 1}


def test_plugin_without_an_entry_is_built_without_settings() -> None:
    assert PIPELINE.format("json").config == {}
    assert named_format(PIPELINE, "json").decode(b'{"a": 1}') == {"a": 1}


def test_request_may_name_an_entry_or_an_installed_plugin() -> None:
    for name in ("lines", "json"):
        assert requested_format(PIPELINE, name).decode(b"{}") == {}


def test_request_for_a_module_is_refused_unless_an_entry_names_it() -> None:
    path = "gauss.stream.rows_format:SPEC"
    with pytest.raises(ConfigError, match="is not installed"):
        requested_format(PIPELINE, path)


def test_request_for_an_unknown_format_names_those_there_are() -> None:
    with pytest.raises(ConfigError) as told:
        requested_format(PIPELINE, "jsn")
    assert "json" in told.value.hint and "lines" in told.value.hint


def test_request_for_a_plugin_that_needs_settings_says_where_they_go() -> None:
    with pytest.raises(ConfigError, match="needs settings") as told:
        requested_format(PIPELINE, "csv")
    assert "[[formats]]" in told.value.hint
