"""The tables of the metadata, as numbered migrations."""

from __future__ import annotations

MIGRATIONS: tuple[tuple[str, str], ...] = (
    (
        "Settings, states with their ingredients, jobs with tasks and events, instances.",
        """
        CREATE TABLE identity (name TEXT PRIMARY KEY, value TEXT NOT NULL);
        CREATE TABLE settings (path TEXT PRIMARY KEY, value TEXT NOT NULL);
        CREATE TABLE states (
            id TEXT PRIMARY KEY, kind TEXT NOT NULL, parent TEXT NOT NULL, base TEXT NOT NULL, engine TEXT NOT NULL,
            version TEXT NOT NULL, number INTEGER NOT NULL, title TEXT NOT NULL, status TEXT NOT NULL,
            job TEXT NOT NULL, error TEXT NOT NULL, boot TEXT NOT NULL, created_ms INTEGER NOT NULL,
            used_ms INTEGER NOT NULL, hits INTEGER NOT NULL, bytes INTEGER, exclusive_bytes INTEGER);
        CREATE INDEX states_parent ON states (parent);
        CREATE TABLE ingredients (
            state TEXT NOT NULL REFERENCES states ON DELETE CASCADE, position INTEGER NOT NULL, kind TEXT NOT NULL,
            name TEXT NOT NULL, digest TEXT NOT NULL, line INTEGER, PRIMARY KEY (state, position));
        CREATE TABLE marks (
            state TEXT NOT NULL REFERENCES states ON DELETE CASCADE, position INTEGER NOT NULL, reason TEXT NOT NULL,
            path TEXT NOT NULL, line INTEGER NOT NULL, PRIMARY KEY (state, position));
        CREATE TABLE jobs (
            id TEXT PRIMARY KEY, signature TEXT NOT NULL, status TEXT NOT NULL, request TEXT NOT NULL,
            created_ms INTEGER NOT NULL, started_ms INTEGER, ended_ms INTEGER, result TEXT, error TEXT);
        CREATE TABLE tasks (
            job TEXT NOT NULL REFERENCES jobs ON DELETE CASCADE, number INTEGER NOT NULL, type TEXT NOT NULL,
            title TEXT NOT NULL, status TEXT NOT NULL, cached INTEGER, state TEXT, started_ms INTEGER,
            ended_ms INTEGER, error TEXT, PRIMARY KEY (job, number));
        CREATE TABLE events (
            job TEXT NOT NULL REFERENCES jobs ON DELETE CASCADE, seq INTEGER NOT NULL, event TEXT NOT NULL,
            PRIMARY KEY (job, seq)) WITHOUT ROWID;
        CREATE TABLE instances (
            id TEXT PRIMARY KEY, state TEXT NOT NULL, image TEXT NOT NULL, runtime TEXT NOT NULL,
            runtime_id TEXT NOT NULL, status TEXT NOT NULL, port INTEGER NOT NULL, password TEXT NOT NULL,
            job TEXT NOT NULL, created_ms INTEGER NOT NULL, used_ms INTEGER NOT NULL, ttl_ms INTEGER NOT NULL);
        CREATE INDEX instances_state ON instances (state);
        CREATE TABLE deleted (id TEXT PRIMARY KEY, kind TEXT NOT NULL, at_ms INTEGER NOT NULL);
        """,
    ),
    (
        "Holders of instances, and instances that are kept without one.",
        """
        ALTER TABLE instances ADD COLUMN holder TEXT NOT NULL DEFAULT '';
        ALTER TABLE instances ADD COLUMN kept INTEGER NOT NULL DEFAULT 0;
        """,
    ),
    (
        "Parameters of the server of an instance, as JSON: those of the key of its state.",
        """
        ALTER TABLE instances ADD COLUMN parameters TEXT NOT NULL DEFAULT '';
        """,
    ),
)
