"""Bearer tokens of the API, stored as hashes, with a role each."""

from __future__ import annotations

import hashlib
import secrets
import uuid
from enum import IntEnum
from typing import NamedTuple

import sqlalchemy as sa

from gauss.clients.database import Database
from gauss.fleet.store import audit
from gauss.fleet.store.clock import now_ms
from gauss.fleet.store.schema import TOKENS
from gauss.model.errors import NotFound

USED_EVERY_MS = 60_000
"""The time of the last use is at most this much behind."""


class Role(IntEnum):
    """What a token allows; each role allows what those before it allow."""

    VIEWER = 1
    """Reads everything but secrets and tokens."""
    OPERATOR = 2
    """Changes, starts and stops pipelines."""
    ADMIN = 3
    """Deletes pipelines, and makes and revokes tokens."""

    @property
    def title(self) -> str:
        return self.name.lower()


class Token(NamedTuple):
    """A token without its text, which only its maker has seen."""

    id: str
    name: str
    role: Role
    created_by: str
    created_at: int
    used_at: int | None


class Tokens:
    """The tokens of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, name: str, role: Role, who: str) -> tuple[Token, str]:
        """A new token and its text, which can't be read again."""
        text = f"gauss_{secrets.token_urlsafe(32)}"
        row = {"id": uuid.uuid4().hex, "name": name, "role": role.title, "created_by": who}
        with self._database.transaction() as connection:
            made = TOKENS.insert().values(**row, hash=_hash(text), created_at=now_ms()).returning(TOKENS)
            token = _token(connection.execute(made).one())
            audit.record(connection, who, "token.create", name=name, role=role.title, id=token.id)
        return token, text

    def list(self) -> list[Token]:
        with self._database.transaction() as connection:
            rows = connection.execute(sa.select(TOKENS).order_by(TOKENS.c.created_at, TOKENS.c.id)).all()
        return [_token(row) for row in rows]

    def get(self, token_id: str) -> Token | None:
        """The token with an id; None if it was revoked."""
        with self._database.transaction() as connection:
            row = connection.execute(sa.select(TOKENS).where(TOKENS.c.id == token_id)).first()
        return None if row is None else _token(row)

    def revoke(self, token_id: str, who: str) -> None:
        with self._database.transaction() as connection:
            gone = connection.execute(TOKENS.delete().where(TOKENS.c.id == token_id).returning(TOKENS.c.name)).first()
            if gone is None:
                raise NotFound(f'no token "{token_id}"', hint="see GET /api/tokens")
            audit.record(connection, who, "token.revoke", name=gone.name, id=token_id)

    def find(self, text: str) -> Token | None:
        """The token with a text. The texts are random and long, so a plain hash is enough, and comparing hashes in the
        database tells nothing of them."""
        if not text:
            return None
        with self._database.transaction() as connection:
            row = connection.execute(sa.select(TOKENS).where(TOKENS.c.hash == _hash(text))).first()
            if row is None:
                return None
            old = sa.or_(TOKENS.c.used_at.is_(None), TOKENS.c.used_at < now_ms() - USED_EVERY_MS)
            connection.execute(TOKENS.update().where(TOKENS.c.id == row.id, old).values(used_at=now_ms()))
        return _token(row)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _token(row: sa.Row[tuple[object, ...]]) -> Token:
    found = row._mapping
    role = Role[str(found["role"]).upper()]
    return Token(found["id"], found["name"], role, found["created_by"], found["created_at"], found["used_at"])
