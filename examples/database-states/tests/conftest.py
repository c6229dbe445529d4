"""A database for each test: a clone of the state that the scripts lead to."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

FOLDER = Path(__file__).parents[1]


@pytest.fixture
def database() -> Iterator[psycopg.Connection]:
    command = ["gauss", "db", "prepare", "--json", "--", "-f", "schema.sql", "-f", "seed.sql"]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout.splitlines()[-1])
    with psycopg.connect(result["dsn"]) as connection:
        yield connection
    subprocess.run(["gauss", "db", "rm", result["instance_id"]], cwd=FOLDER, capture_output=True, check=True)
