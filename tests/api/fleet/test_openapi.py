"""Random requests, valid and invalid, get answers with the codes and shapes that the OpenAPI description has."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from api.fleet.conftest import Fleet
from gauss.api.fleet.app import create_fleet_app
from gauss.fleet.leases.claims import End
from gauss.fleet.leases.owner import Owner
from gauss.fleet.store import letters as stored_letters
from gauss.fleet.store.letters import DeadLetter, Origin
from helpers.cases import cases

REQUESTS = 12
"""Of each operation."""
JUNK: tuple[Any, ...] = (
    *("", "x", "\ud800", "\u202eé", "a" * 300, "'; DROP TABLE pipelines; --", "../..", "{}", "NaN"),
    *(None, True, 0, -1, 2**63, -(2**70), 1e308, 0.5),
    *([], {}, [[]], [None], {"": None}, {"a": {"b": [1, "x"]}}),
)
SESSIONS = "/api/session"
"""Its cookies are tested with the pages."""


class Description:
    """An OpenAPI document."""

    def __init__(self, document: dict[str, Any], seed: int) -> None:
        self.paths: dict[str, dict[str, Any]] = document["paths"]
        self._schemas = document["components"]["schemas"]
        self._random = random.Random(seed)

    def operations(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Method, path and description; deletions come last."""
        found = [
            (method.upper(), path, operation)
            for path, methods in self.paths.items()
            for method, operation in methods.items()
            if not path.startswith(SESSIONS) and any(code.startswith("2") for code in operation["responses"])
        ]
        yield from sorted(found, key=lambda each: each[0] == "DELETE")

    def value(self, schema: dict[str, Any], depth: int = 0) -> Any:
        """A value that fits a schema, or in one of eight cases any other one."""
        chance = self._random
        if chance.random() < 1 / 8 or depth > 6:
            return chance.choice(JUNK)
        if "$ref" in schema:
            return self.value(self._schemas[schema["$ref"].rpartition("/")[2]], depth)
        if options := schema.get("anyOf"):
            return self.value(chance.choice(options), depth)
        if "enum" in schema:
            return chance.choice(schema["enum"])
        match schema.get("type"):
            case "object":
                fields = schema.get("properties", {})
                wanted = [each for each in fields if each in schema.get("required", ()) or chance.random() < 0.5]
                return {each: self.value(fields[each], depth + 1) for each in wanted}
            case "array":
                return [self.value(schema.get("items", {}), depth + 1) for _ in range(chance.randrange(3))]
            case "integer":
                return chance.randint(int(schema.get("minimum", -5)), 50)
            case "number":
                return chance.random()
            case "boolean":
                return chance.random() < 0.5
            case "null":
                return None
            case "string":
                return "".join(chance.choices("ab.{}é \n0", k=chance.randint(1, 9)))
        return chance.choice(JUNK)

    def misfits(self, schema: dict[str, Any], value: Any, at: str = "$") -> list[str]:
        """Where a value differs from a schema."""
        if "$ref" in schema:
            return self.misfits(self._schemas[schema["$ref"].rpartition("/")[2]], value, at)
        if options := schema.get("anyOf"):
            return [] if any(not self.misfits(each, value, at) for each in options) else [f"{at}: none of anyOf"]
        if "enum" in schema and value not in schema["enum"]:
            return [f"{at}: {value!r} is not one of {schema['enum']}"]
        kinds: dict[str, Any] = {
            "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
            "null": type(None),
        }  # fmt: skip
        kind = schema.get("type")
        if kind is not None and (not isinstance(value, kinds[kind]) or (kind != "boolean" and value in (True, False)
                                                                         and isinstance(value, bool))):  # fmt: skip
            return [f"{at}: {value!r} is no {kind}"]
        if isinstance(value, list):
            return [each for item in value for each in self.misfits(schema.get("items", {}), item, f"{at}[]")]
        if isinstance(value, dict) and "properties" in schema:
            fields = schema["properties"]
            found = [f"{at}.{name}: missing" for name in schema.get("required", ()) if name not in value]
            found += [f"{at}.{name}: not described" for name in value if name not in fields]
            return found + [
                each for name in fields.keys() & value for each in self.misfits(fields[name], value[name], name)
            ]
        return []

    def request(self, method: str, path: str, operation: dict[str, Any], pipeline: str) -> dict[str, Any]:
        """A random request of an operation, as arguments of httpx."""
        query = {}
        for each in operation.get("parameters", ()):
            found = str(self.value(each["schema"])).encode(errors="replace").decode()
            if each["in"] == "query":
                if each.get("required") or self._random.random() < 0.5:
                    query[each["name"]] = found
            else:
                known = pipeline if each["name"] == "id" and self._random.random() < 0.8 else found
                path = path.replace(f"{{{each['name']}}}", quote(known, safe="") or "0")
        given: dict[str, Any] = {"method": method, "url": path, "params": query}
        for content in operation.get("requestBody", {}).get("content", {}).values():
            given["content"] = json.dumps(self.value(content["schema"]))  # httpx's own JSON refuses surrogates
            given["headers"] = {"Content-Type": "application/json"}
        return given


@pytest.fixture
def busy(fleet: Fleet, pipeline: str) -> str:
    """The id of a pipeline with a letter, a lease, a claim, a worker and two versions."""
    id, store = pipeline.rpartition("/")[2], fleet.store
    store.pipelines.change_state(id, "me", desired="started", replicas=2)
    (lease,) = store.leases.acquire("w", [(id, 0)], 600_000)
    store.workers.seen("w", host="h", pid=1, mode="leases", version="1", ttl_ms=600_000)
    owner = Owner("w", id, lease)
    (claim,) = store.claims.take(owner, "t", "id", [0], {0: 0})
    store.claims.report_ends(owner, {claim: End(9)})
    with store.database.transaction() as connection:
        letter = DeadLetter(0, "map", "bad", "", "", b"{", 0)
        stored_letters.add(connection, id, Origin(0, "t", 0), [letter])
    with fleet.client() as client:
        for expression in (".a > 1", ".a > 2"):
            client.put(f"{pipeline}/filters-config", json={"enabled": True, "expression": expression})
    return id


def test_answers_to_random_requests_are_as_described(fleet: Fleet, api: httpx.Client, busy: str) -> None:
    described = Description(create_fleet_app(fleet.store).openapi(), seed=7)
    succeeded = set()
    for method, path, operation in described.operations():
        for _ in range(cases(REQUESTS)):
            request = described.request(method, path, operation, busy)
            answer = api.request(**request)
            code = str(answer.status_code)
            assert code in operation["responses"] or code == "405", (request, answer.text)
            assert not answer.is_server_error, (request, answer.text)
            if answer.is_success:
                succeeded.add((method, path))
            elif code != "405":
                assert set(answer.json()["error"]) == {"code", "message", "hint", "retryable"}, request
            content = operation["responses"].get(code, {}).get("content", {}).get("application/json")
            if content is not None:
                assert described.misfits(content["schema"], answer.json()) == [], request
    missed = {(method, path) for method, path, _ in described.operations()} - succeeded
    # These need a broker, ClickHouse or a pipeline that is a file; tests of their own have their answers.
    assert {path for _, path in missed} <= {path for path in described.paths if re.search(NEEDS_SERVERS, path)}


NEEDS_SERVERS = (
    r"validate|draft|sample|proposal|preview|clickhouse|kafka-config|mapping|versions/|tokens/|dead-letters/"
    r"|file-config"
)


def test_misfits_are_found(fleet: Fleet) -> None:
    described = Description(create_fleet_app(fleet.store).openapi(), seed=0)
    schema = {"$ref": "#/components/schemas/State"}
    assert described.misfits(schema, {"desired": "started", "replicas": 1}) == []
    assert described.misfits(schema, {"desired": "started"}) == ["$.replicas: missing"]
    assert described.misfits(schema, {"desired": "off", "replicas": True, "x": 1}) != []
    assert described.misfits({"type": "integer"}, 1.5) != []
    assert described.misfits({"type": "array", "items": {"type": "string"}}, ["a", 1]) == ["$[]: 1 is no string"]
