"""The store of a fleet: one object per concern over one database."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from gauss.clients.database import Database
from gauss.fleet.leases.claims import PartitionClaims
from gauss.fleet.leases.slots import SlotLeases
from gauss.fleet.store.access import Tokens
from gauss.fleet.store.audit import AuditLog
from gauss.fleet.store.configs import Configs
from gauss.fleet.store.letters import DeadLetters
from gauss.fleet.store.migrations import migrate
from gauss.fleet.store.pipelines import Pipelines
from gauss.fleet.store.schema import KEY_CHECK
from gauss.fleet.store.sealing import Seal, read_key
from gauss.fleet.store.takeovers import Takeovers
from gauss.fleet.store.time_limit import limit_transactions
from gauss.fleet.store.workers import Workers
from gauss.model.errors import ConfigError, StorageError

CONNECT_SECONDS = 5
TRANSACTION_SECONDS = 10.0
_CHECK_PLACE = "key check"


class FleetStore:
    """Usable from several threads. Opening it migrates it."""

    def __init__(self, address: str | Path, key_path: Path, *, connections: int = 5) -> None:
        """`address` as returned by `store_address`. `connections`: at most so many to Postgres."""
        self.database = _database(address, connections)
        try:
            migrate(self.database)
            self.seal = Seal(self._checked_key(key_path))
        except BaseException:
            self.database.close()
            raise
        self.pipelines = Pipelines(self.database)
        self.configs = Configs(self.database, self.seal)
        self.leases = SlotLeases(self.database)
        self.takeovers = Takeovers(self.database)
        self.claims = PartitionClaims(self.database)
        self.letters = DeadLetters(self.database)
        self.workers = Workers(self.database)
        self.tokens = Tokens(self.database)
        self.audit = AuditLog(self.database)

    @property
    def kind(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.database.engine.dialect.name

    def close(self) -> None:
        self.database.close()

    def _checked_key(self, path: Path) -> bytes:
        """The key, if it is the one with which the secrets of this store are sealed. The first process decides."""
        select = sa.select(KEY_CHECK.c.sealed)
        with self.database.transaction() as connection:
            known = connection.execute(select).scalar()
        key = read_key(path, create=known is None)
        if known is None:
            sealed = Seal(key).close({"store": "gauss"}, _CHECK_PLACE)
            with self.database.transaction() as connection:
                values = "SELECT 1, :sealed WHERE NOT EXISTS (SELECT 1 FROM key_check)"
                lock = "LOCK TABLE key_check IN EXCLUSIVE MODE"
                if connection.dialect.name == "postgresql":
                    connection.execute(sa.text(lock))
                connection.execute(sa.text(f"INSERT INTO key_check (id, sealed) {values}"), {"sealed": sealed})
                known = connection.execute(select).scalar_one()
        try:
            Seal(key).open(bytes(known), _CHECK_PLACE)
        except StorageError:
            raise ConfigError(
                f"the key file {path} is not the one that this store's secrets are sealed with",
                hint="copy the key file from the machine on which the store was made, or name it with --key-file",
            ) from None
        return key


def store_address(url: str) -> str | Path:
    """The address of a store: `sqlite:///FILE` (relative) or `sqlite:////FILE`, `postgresql://…`."""
    scheme, separator, rest = url.partition("://")
    if separator and scheme == "sqlite":
        file = rest.removeprefix("/")
        if not file:
            raise ConfigError("--store: the SQLite URL names no file", hint="such as sqlite:///fleet.db")
        return Path(file)
    if separator and scheme in ("postgresql", "postgres"):
        return url
    raise ConfigError(
        "--store: expected sqlite:///FILE or postgresql://user:password@host:port/database",
        hint="SQLite is for one machine, Postgres for many",
    )


def _database(address: str | Path, connections: int) -> Database:
    if isinstance(address, Path):
        return Database(address, name="fleet's store", option="--store")
    made = Database(
        address,
        name="fleet's store",
        option="--store",
        pool_size=connections,
        max_overflow=0,
        pool_timeout=TRANSACTION_SECONDS,
        pool_pre_ping=False,  # it would wait for ever for a server that is cut off; every caller tries again
        isolation_level="READ COMMITTED",
        connect_args={"connect_timeout": CONNECT_SECONDS, "application_name": "gauss fleet"},
    )
    limit_transactions(made.engine, TRANSACTION_SECONDS)
    return made
