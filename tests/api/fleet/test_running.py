"""Routes about dead letters, lag and stuck ranges."""

from __future__ import annotations

import base64
from typing import Any

import httpx
import pytest

from api.fleet.conftest import Fleet
from gauss.fleet.leases.claims import End, Intent
from gauss.fleet.leases.owner import Owner
from gauss.fleet.replay import MOST_LETTERS
from gauss.fleet.store import letter_totals
from gauss.fleet.store import letters as stored_letters
from gauss.fleet.store.access import Role
from gauss.fleet.store.letters import EXCERPT_BYTES, DeadLetter, Origin


def add_letters(fleet: Fleet, pipeline: str, *records: bytes | None) -> None:
    """One per record, at the offsets 0, 1, …"""
    found = [DeadLetter(offset, "map", "bad", "id", "why", data, 5) for offset, data in enumerate(records)]
    with fleet.store.database.transaction() as connection:
        stored_letters.add(connection, pipeline.rpartition("/")[2], Origin(7, "t", 3), found)


def test_letters_are_listed_edited_and_discarded(fleet: Fleet, api: httpx.Client, pipeline: str) -> None:
    add_letters(fleet, pipeline, b"{bad" + b"x" * 5_000, b"\xff\x00", None)
    path = f"{pipeline}/dead-letters"
    tombstone, binary, text = api.get(path).json()
    assert (tombstone["text"], tombstone["size"], binary["size"], text["size"]) == (None, 0, 2, 5_004)
    assert (len(text["text"]), text["partition"], text["offset"], text["edited"]) == (EXCERPT_BYTES, 3, 0, None)
    assert api.get(f"{path}/7/2").json()["base64"] is None
    assert base64.b64decode(api.get(f"{path}/7/1").json()["base64"]) == b"\xff\x00"
    assert api.get(f"{path}/7/0").json()["text"] == "{bad" + "x" * 5_000
    assert api.get(f"{path}/7/9").status_code == 404
    edited = api.put(f"{path}/7/0", json={"text": "{}"}).json()
    assert (edited["text"][:4], edited["edited"], edited["editedBy"]) == ("{bad", "{}", "admin")
    assert api.put(f"{path}/7/0", json={"base64": "AAE="}).json()["edited"] == "\x00\x01"
    assert api.put(f"{path}/7/0", json={}).json()["edited"] is None
    assert api.post(f"{path}/discard", json=[{"inc": 7, "offset": 0}, {"inc": 7, "offset": 9}]).json() == {
        "discarded": 1
    }
    assert [each["offset"] for each in api.get(path).json()] == [2, 1]
    actions = [each["action"] for each in api.get("/api/audit").json()]
    assert actions[:2] == ["letters.discard", "letter.edit"]


def test_the_status_tells_that_letters_are_no_longer_kept(
    fleet: Fleet, api: httpx.Client, pipeline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (stored_letters, letter_totals):
        monkeypatch.setattr(module, "MOST_LETTERS", 2)
    add_letters(fleet, pipeline, b"a", b"b", b"c")
    seen = api.get(f"{pipeline}/status").json()
    assert (seen["lettersKept"], seen["lettersDropped"], seen["lettersExpired"]) == (2, 1, 0)
    assert seen["alert"] == "there is no room for more than its 2 dead letters: later ones are only counted"
    assert api.get("/api/overview").json()["pipelines"][pipeline.rpartition("/")[2]]["lettersDropped"] == 1
    api.post(f"{pipeline}/dead-letters/discard", json=[{"inc": 7, "offset": 0}])
    seen = api.get(f"{pipeline}/status").json()
    assert (seen["lettersKept"], seen["lettersDropped"], seen["alert"]) == (1, 1, "")


WRONG: tuple[tuple[str, Any, int], ...] = (
    ("PUT 7/5", {"text": "x"}, 404),
    (f"PUT 7/{2**63}", {"text": "x"}, 422),
    ("PUT -1/0", {"text": "x"}, 422),
    ("PUT 7/0", {"text": 5}, 422),
    ("PUT 7/0", {"base64": "%"}, 422),
    ("PUT 7/0", {"base64": "é"}, 422),
    ("PUT 7/0", {"data": "x"}, 422),
    ("POST discard", [{"inc": 2**63, "offset": 0}], 422),
    ("POST discard", [{"inc": 7, "offset": 9}] * 1_001, 422),
    ("POST replay", [{"inc": 7, "offset": 9}] * (MOST_LETTERS + 1), 422),
    ("POST replay", [{"inc": 7, "offset": 0}], 422),  # the pipeline has no config
    ("POST replay", {"inc": 7, "offset": 0}, 422),
)


def test_wrong_requests_change_no_letter(fleet: Fleet, api: httpx.Client, pipeline: str) -> None:
    add_letters(fleet, pipeline, b"{bad")
    for line, body, code in WRONG:
        method, _, rest = line.partition(" ")
        found = api.request(method, f"{pipeline}/dead-letters/{rest}", json=body)
        assert (found.status_code, set(found.json())) == (code, {"error"}), (line, body)
        (left,) = api.get(f"{pipeline}/dead-letters").json()
        assert (left["text"], left["edited"]) == ("{bad", None)


def test_letters_that_are_gone_are_told_so_and_a_viewer_may_not_replay(
    fleet: Fleet, api: httpx.Client, pipeline: str
) -> None:
    found = api.post(f"{pipeline}/dead-letters/replay", json=[{"inc": 7, "offset": 0}])
    assert found.json() == [{"inc": 7, "offset": 0, "outcome": "gone", "reason": ""}]
    for path in ("dead-letters/replay", "dead-letters/discard", "claims/use-newest-config"):
        assert api.post(f"/api/pipelines/nobody/{path}", json=[]).status_code == 404
        with fleet.client(Role.VIEWER) as viewer:
            assert viewer.post(f"{pipeline}/{path}", json=[]).status_code == 403


def test_a_pipeline_that_is_behind_shows_for_how_long_and_its_stuck_range(
    fleet: Fleet, api: httpx.Client, pipeline: str
) -> None:
    id = pipeline.rpartition("/")[2]
    owner, claims = Owner("w", id), fleet.store.claims
    (claim,) = claims.take(owner, "t", "id", [0], {0: 5})
    (claim,) = claims.intend(owner, [(claim, Intent(8, 1))])
    claims.report_ends(owner, {claim: End(20, behind_ms=4_000)})
    for table in ("a", "b"):
        api.put(f"{pipeline}/clickhouse-config", json={"dsn": "http://h:8123", "table": table})
    seen = api.get(f"{pipeline}/status").json()
    assert (seen["lag"], seen["deadRatio"], seen["alert"]) == (15, 0.0, "")
    assert 4.0 <= seen["lagSeconds"] < 60.0
    (shown,) = api.get(f"{pipeline}/claims").json()
    assert (shown["pendingTo"], shown["pendingVersion"], shown["epoch"]) == (8, 1, 1)
    assert shown["lagSeconds"] >= 4.0
    assert api.post(f"{pipeline}/claims/use-newest-config").json() == {"ranges": 1}
    (shown,) = api.get(f"{pipeline}/claims").json()
    assert (shown["pendingVersion"], shown["epoch"]) == (2, 2)


def test_the_limit_of_the_alert_is_a_share(api: httpx.Client, pipeline: str) -> None:
    for ratio, code in ((-0.1, 422), (1.1, 422), ("many", 422), (0, 200), (1, 200), (0.25, 200)):
        assert api.put(pipeline, json={"name": "o", "alertRatio": ratio}).status_code == code
        assert api.put(pipeline, json={"name": "p"}).json()["alertRatio"] == (ratio if code == 200 else 0.05)


def test_takeovers_tell_who_held_a_slot(fleet: Fleet, api: httpx.Client, pipeline: str) -> None:
    api.post(f"{pipeline}/start")
    for worker in ("a", "b"):
        leases = fleet.store.leases.acquire(worker, [(pipeline.rpartition("/")[2], 0)], 60_000)
        if worker == "a":
            fleet.store.leases.release(worker, leases)
    first, second = api.get(f"{pipeline}/takeovers").json()
    assert (first["workerId"], first["epoch"], second["workerId"], second["epoch"]) == ("a", 1, "b", 2)
    assert first["beganAt"] <= first["endedAt"] <= second["beganAt"]
    assert second["endedAt"] is None
    assert api.get(f"{pipeline}/takeovers", params={"seconds": 0}).status_code == 422
