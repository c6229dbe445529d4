"""The log of a worker as JSON lines."""

from __future__ import annotations

import io
import json
import logging

from gauss.fleet.logs import JsonLines, about


def test_a_line_names_the_pipeline_and_the_slot_and_keeps_an_error_on_one_line() -> None:
    output = io.StringIO()
    handler = logging.StreamHandler(output)
    handler.setFormatter(JsonLines())
    log = logging.Logger("gauss.fleet")
    log.addHandler(handler)
    log.info("taken, epoch %d", 3, extra=about("p", 0))
    try:
        raise ValueError("two\nlines")
    except ValueError:
        log.exception("failed")
    first, second = map(json.loads, output.getvalue().splitlines())
    assert (first["level"], first["message"], first["pipeline"], first["slot"]) == ("info", "taken, epoch 3", "p", 0)
    assert "pipeline" not in second
    assert "two\nlines" in second["error"]
