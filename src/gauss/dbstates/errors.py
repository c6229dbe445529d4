"""Errors of database states, besides those of `model/errors.py`.

GaussError
├── ScriptFailed        a script ended with an error
├── Cancelled           the job was cancelled
├── DeadlineExceeded    the job took longer than its deadline
├── InputLocked         another process writes to an input, and holds a lock on it
├── InputChanged        an input changed while it was used
├── RuntimeMissing      the files of an instance are gone
└── Blocked             a rule forbids a deletion
"""

from __future__ import annotations

from gauss.model.errors import GaussError, Rejected


class ScriptFailed(GaussError):
    code = "script_failed"


class Cancelled(GaussError):
    code = "cancelled"


class DeadlineExceeded(GaussError):
    code = "deadline_exceeded"


class InputLocked(GaussError):
    code = "input_locked"
    retryable = True


class InputChanged(GaussError):
    code = "input_changed"
    retryable = True


class RuntimeMissing(GaussError):
    code = "runtime_missing"


class Blocked(Rejected):
    code = "blocked"
