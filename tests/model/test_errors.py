"""Errors are parsed from their wire form and from tracebacks that Java passes on."""

from __future__ import annotations

import traceback

import pytest

from gauss.clients.errors import Unclear
from gauss.model.errors import Fenced, GaussError, ProtocolError, Unavailable, errors_in_trace, from_dict, traced


def trace_of(error: BaseException) -> str:
    """A traceback in the form in which Spark passes it on."""
    try:
        with traced():
            raise error
    except BaseException:
        return f"Job aborted\nPythonException: {traceback.format_exc()}\n\tat java.lang.Thread.run(Thread.java:1)"


@pytest.mark.parametrize("error", [Fenced('claimed "p"\nagain', hint="end é"), Unclear("lost"), GaussError("x")])
def test_error_is_found_in_a_trace_with_class_message_and_hint(error: GaussError) -> None:
    (found,) = errors_in_trace(trace_of(error))
    assert type(found) is type(error)
    assert found.to_dict() == error.to_dict()


def test_errors_of_a_chain_come_in_the_order_in_which_they_were_raised() -> None:
    try:
        try:
            raise Unavailable("no answer")
        except Unavailable as error:
            raise ProtocolError("a gap") from error
    except ProtocolError as error:
        found = errors_in_trace(trace_of(error))
    assert [each.code for each in found] == ["unavailable", "protocol"]


def test_error_that_is_its_own_cause_is_noted_once() -> None:
    try:
        error = Unavailable("no answer")
        raise error from error
    except Unavailable as found:
        assert len(errors_in_trace(trace_of(found))) == 1


def test_other_errors_and_texts_that_were_cut_hold_none() -> None:
    assert errors_in_trace(trace_of(ValueError("gauss.model.errors.Fenced: x"))) == []
    assert errors_in_trace(trace_of(Fenced("x"))[:-60].replace("false}", "")) == []


def test_error_of_a_class_that_is_not_loaded_still_says_whether_a_retry_helps() -> None:
    found = from_dict({"code": "of a plugin", "message": "busy", "hint": "", "retryable": True})
    assert type(found) is GaussError and found.retryable


def test_error_that_does_not_cross_has_no_note() -> None:
    error = Unavailable("no answer", hint="wait")
    assert str(error) == "no answer"
    assert not hasattr(error, "__notes__")
