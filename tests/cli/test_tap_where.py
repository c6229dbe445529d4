from __future__ import annotations

import pytest

from gauss.cli.tap import compile_where
from gauss.model.errors import ConfigError


def test_record_is_kept_when_the_expression_is_true() -> None:
    keep = compile_where('.bid > 100 and .symbol == "BTC"')
    assert keep('{"bid": 101, "symbol": "BTC"}')
    assert not keep('{"bid": 99, "symbol": "BTC"}')


@pytest.mark.parametrize("data", ["no json", "[1]", {"base64": "AA=="}, '"text"'])
def test_what_is_no_object_never_matches(data: object) -> None:
    assert not compile_where(".bid > 0")(data)


def test_wrong_expression_is_a_config_error() -> None:
    with pytest.raises(ConfigError):
        compile_where(".bid >")
