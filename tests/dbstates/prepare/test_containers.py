"""Prepare jobs with an image, in containers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gauss.clients.dbstates.client import start
from helpers.containers import use_podman
from helpers.dbstates import engine, kill_engine, prepare, unique, write_scripts


def test_scripts_are_prepared_in_containers_of_an_image(
    fast_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = use_podman(tmp_path, monkeypatch)
    write_scripts(tmp_path, main=f"{unique()}\\i part.sql\n", part="CREATE TABLE part AS SELECT 9 AS n;")
    with engine(fast_folder / "containers") as client:
        client.patch("config", body={"path": "container", "value": {"memory": "", "cpus": 0}})
        first = prepare(client, tmp_path, "-f", "main.sql", image=image)
        assert first.status == "succeeded", first.error
        assert first.result["tasks"][0]["type"] == "resolve_image"
        again = prepare(client, tmp_path, "-f", "main.sql", image=image)
        assert set(again.cached) == {True}
        assert again.sql("SELECT n FROM part") == 9
        exact = client.get("instances", again.instance)["image"]
        given = prepare(client, tmp_path, "-f", "main.sql", image=exact)
        assert given.result["tasks"][0]["type"] == "plan"  # a digest needs no resolution
        subprocess.run(
            ["podman", "rm", "-f", "-t", "0", client.get("instances", again.instance)["runtime_id"]], check=True
        )
        events = list(client.run({"instance_id": again.instance, "args": ["-Atc", "SELECT n FROM part"]}))
        assert [event["data"] for event in events if event["type"] == "stdout"] == ["9"]
        client.post("instances", again.instance, "reset")
        assert again.sql("SELECT n FROM part") == 9
        client.patch("config", body={"path": "orchestrator.statementTimeoutSecs", "value": 0.3})
        limited = prepare(client, tmp_path, "-c", "SELECT pg_sleep(600)", image=image)
        assert "statement timeout" in limited.error["message"]
        before = client.get("instances", again.instance)["runtime_id"]
        kill_engine(fast_folder / "containers")
        adopted = start(fast_folder / "containers").get("instances", again.instance)
        assert (adopted["status"], adopted["runtime_id"]) == ("running", before)
    left = subprocess.run(
        ["podman", "ps", "-a", "--format", "{{.Labels}}"], check=True, capture_output=True, text=True
    ).stdout
    assert first.instance not in left and again.instance not in left
