"""Confluent's wire format: a zero byte, then the schema id in four bytes; schemas come from files or a registry."""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

import httpx

from gauss.contracts.format import BadRecord
from gauss.model.errors import ConfigError, Unavailable
from gauss.plugins.formats.registry_config import RegistryConfig

HEADER = 5
ASK_AGAIN_SECS = 5
"""How long an unknown id is not requested again."""
MOST_UNKNOWN = 10_000
"""How many unknown ids are remembered."""


class Registered(NamedTuple):
    """The text of a schema, and the schemas it refers to by import name."""

    id: int
    text: str
    references: dict[str, str]


class SchemaRegistry:
    """Schemas by id. Known ones are cached forever, since an id never changes its meaning; unknown ones for a while."""

    def __init__(self, config: RegistryConfig) -> None:
        self._config = config
        self._known: dict[int, Registered] = {}
        self._unknown: dict[int, float] = {}
        self._lock = threading.Lock()

    def schema(self, number: int) -> Registered:
        """The schema of an id; raises BadRecord if there is none, Unavailable if the registry does not answer."""
        with self._lock:
            if number in self._known:
                return self._known[number]
            if time.monotonic() < self._unknown.get(number, 0):
                raise self._missing(number)
            path = self._config.schemas.get(str(number))
            if path is not None:
                found = Registered(number, path.read_text(), {})
            else:
                answer = self._get(f"/schemas/ids/{number}") if self._config.url else None
                if answer is None:
                    self._unknown[number] = time.monotonic() + ASK_AGAIN_SECS
                    if len(self._unknown) > MOST_UNKNOWN:  # records can name any id
                        del self._unknown[next(iter(self._unknown))]
                    raise self._missing(number)
                found = Registered(number, answer["schema"], self._references(answer))
            self._known[number] = found
            return found

    def newest(self) -> Registered:
        """The newest schema of the configured subject."""
        if self._config.subject is None or self._config.url is None:
            raise ConfigError(
                "no schema to take the columns from",
                hint="name a schema in the format's config, or url and subject of the registry",
            )
        answer = self._get(f"/subjects/{self._config.subject}/versions/latest")
        if answer is None:
            raise ConfigError(
                f'the registry at {self._config.url} has no subject "{self._config.subject}"',
                hint="register its schema first",
            )
        return Registered(answer["id"], answer["schema"], self._references(answer))

    def _references(self, answer: dict[str, Any]) -> dict[str, str]:
        found: dict[str, str] = {}
        for reference in answer.get("references") or []:
            inner = self._get(f"/subjects/{reference['subject']}/versions/{reference['version']}")
            if inner is not None:
                found[reference["name"]] = inner["schema"]
                found.update(self._references(inner))
        return found

    def _get(self, path: str) -> dict[str, Any] | None:
        config = self._config
        password = config.password.get_secret_value() if config.password else ""
        auth = (config.username, password) if config.username else None
        try:
            reply = httpx.get(f"{config.url}{path}", auth=auth, timeout=config.timeout / 1000)
        except httpx.HTTPError as error:
            raise Unavailable(f"the schema registry at {config.url} does not answer: {error}") from error
        if reply.status_code == 404:
            return None
        if reply.status_code != 200:
            raise Unavailable(f"the schema registry at {config.url} answered {reply.status_code} to {path}")
        found: dict[str, Any] = reply.json()
        return found

    def _missing(self, number: int) -> BadRecord:
        return BadRecord("unknown_schema", f"no schema has the id {number}")


def schema_id(record: bytes) -> int:
    """The schema id at the start of a record; raises BadRecord."""
    if len(record) < HEADER or record[0] != 0:
        raise BadRecord("no_schema_id", "expected a zero byte and a schema id of four bytes at the head of the record")
    return int.from_bytes(record[1:HEADER], "big")


def header(number: int) -> bytes:
    return b"\0" + number.to_bytes(4, "big")
