"""Passwords of instances: a server is told the verifier only, so that no log can have the password."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

ITERATIONS = 4096


def new_password() -> str:
    return secrets.token_urlsafe(18)


def verifier(password: str) -> str:
    """The SCRAM-SHA-256 verifier of an ASCII password, as Postgres stores it."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    parts = [base64.b64encode(part).decode() for part in (salt, stored, server)]
    return f"SCRAM-SHA-256${ITERATIONS}:{parts[0]}${parts[1]}:{parts[2]}"
