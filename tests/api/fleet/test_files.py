"""Pipelines that are whole files of Gauss, over the API."""

from __future__ import annotations

import httpx

from api.fleet.conftest import Fleet
from gauss.fleet.store.access import Role

GOOD = """
[[topics]]
name = "t"
storage = "memory"

[[processors]]
name = "in"
plugin = "tcp-source"
target = { topic = "t" }
config = { port = 0, input = { framing = "newline" } }
"""
BAD = GOOD.replace("tcp-source", "tcp-sauce")


def test_a_file_is_checked_saved_shown_and_compared(api: httpx.Client, pipeline: str) -> None:
    assert api.post("/api/validate/file", json={"text": GOOD}).json()["ok"] is True
    found = api.post("/api/validate/file", json={"text": BAD}).json()
    (fault,) = [each for each in found["faults"] if not each["warning"]]
    assert (found["ok"], fault["line"]) == (False, 8)
    assert "tcp-source" in fault["expected"] + fault["hint"]
    refused = api.put(f"{pipeline}/file-config", json={"text": BAD})
    assert refused.status_code == 422
    assert "pipeline.toml:8" in refused.json()["error"]["message"]
    assert api.get(f"{pipeline}/file-config").status_code == 404
    assert api.put(f"{pipeline}/file-config", json={"text": GOOD}).json() == {"text": GOOD}
    assert api.get(pipeline).json()["isFile"] is True
    api.put(f"{pipeline}/file-config", json={"text": GOOD + "# more\n"})
    (difference,) = api.get(f"{pipeline}/versions/diff", params={"before": 1, "after": 2}).json()
    assert difference["path"] == "file.text"
    assert api.post(f"{pipeline}/versions/1/rollback").json() == {"version": 3}
    assert api.get(f"{pipeline}/file-config").json() == {"text": GOOD}


def test_a_file_has_one_replica_and_no_other_config(api: httpx.Client, pipeline: str) -> None:
    api.put(f"{pipeline}/file-config", json={"text": GOOD})
    for answer in (
        api.patch(f"{pipeline}/state", json={"replicas": 2}),
        api.put(f"{pipeline}/kafka-config", json={"brokers": ["b:1"], "topic": "t"}),
    ):
        assert answer.status_code == 422
        assert "file" in answer.json()["error"]["message"]
    assert api.patch(f"{pipeline}/state", json={"desired": "started"}).json() == {"desired": "started", "replicas": 1}


def test_only_admins_choose_what_code_workers_run(fleet: Fleet, pipeline: str) -> None:
    with fleet.client(Role.OPERATOR) as client:
        assert client.put(f"{pipeline}/file-config", json={"text": GOOD}).status_code == 403
        assert client.post("/api/validate/file", json={"text": GOOD}).status_code == 403
        assert client.get(f"{pipeline}/file-config").status_code == 404
