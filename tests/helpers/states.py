"""States of a store that no script has made."""

from __future__ import annotations

from gauss.dbstates.store.states import StatePlace, States


def place(state: str, parent: str = "base") -> StatePlace:
    return StatePlace(state, "psql", parent, "base", "postgres", "17.1", 1, f"{state[:4]}.sql")


def add_state(states: States, state: str, parent: str = "base") -> str:
    """A ready state without files; returns its id."""
    states.begin(place(state, parent), job="")
    states.finish(state, (), ())
    return state
