"""Tokens: shown once, stored as hashes, revoked at once."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.store.access import Role
from gauss.fleet.store.schema import TOKENS
from gauss.model.errors import NotFound


def test_a_token_is_found_by_its_text_until_it_is_revoked(store: FleetStore) -> None:
    token, text = store.tokens.create("ci", Role.OPERATOR, who="ann")
    found = store.tokens.find(text)
    assert found is not None
    assert (found.id, found.role, found.created_by) == (token.id, Role.OPERATOR, "ann")
    store.tokens.revoke(token.id, who="ann")
    assert store.tokens.find(text) is None
    assert [each.action for each in store.audit.entries()] == ["token.revoke", "token.create"]
    with pytest.raises(NotFound, match="no token"):
        store.tokens.revoke(token.id, who="ann")


def test_the_text_of_a_token_is_not_stored(store: FleetStore) -> None:
    _, text = store.tokens.create("ci", Role.ADMIN, who="ann")
    with store.database.transaction() as connection:
        rows = connection.execute(sa.select(TOKENS)).all()
    assert text not in str(rows)
    assert text.removeprefix("gauss_") not in str(store.audit.entries())


@pytest.mark.parametrize("text", ["", "x", "gauss_", "ü" * 50, "\ud800", "' OR 1=1 --"])
def test_no_other_text_is_a_token(store: FleetStore, text: str) -> None:
    store.tokens.create("ci", Role.ADMIN, who="ann")
    assert store.tokens.find(text) is None
