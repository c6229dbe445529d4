"""How browsers sign in: one-time codes, each of which opens a session."""

from __future__ import annotations

import secrets
import threading
import time
from typing import Generic, TypeVar

CODE_SECONDS = 900.0
"""How long a one-time code is valid: it is printed, and what is printed may end in a log."""
MOST_CODES = 100
SESSION_SECONDS = 30 * 86_400

Grant = TypeVar("Grant")


class SignInCodes(Generic[Grant]):
    """One-time codes, each for one session with what it grants."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._codes: dict[str, tuple[Grant, float]] = {}

    def issue(self, grant: Grant) -> str:
        """A new code. The oldest one is forgotten when there are too many."""
        code = secrets.token_urlsafe(18)
        with self._lock:
            self._codes[code] = (grant, time.monotonic() + CODE_SECONDS)
            while len(self._codes) > MOST_CODES:
                del self._codes[next(iter(self._codes))]
        return code

    def redeem(self, code: str) -> Grant | None:
        """What a code grants, which is used up by this; None if it is unknown, used or too old."""
        with self._lock:
            found = self._codes.pop(code, None)
        return found[0] if found is not None and time.monotonic() < found[1] else None
