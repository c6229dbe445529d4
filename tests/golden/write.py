"""Writes the golden data directory of this version: `PYTHONPATH=tests .venv/bin/python -m golden.write VERSION`.

VERSION is a folder beside this file with a pipeline.toml. Its data directory is kept in the tree, and no later version
may fail to open it: write a new folder when the form on disk changes, and keep the old ones.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from helpers.feeds import send
from helpers.golden import BAD, KEPT, expected, quotes
from helpers.run import Run, free_port
from helpers.waiting import wait_until

GOLDEN = Path(__file__).parent


def main(version: str) -> None:
    folder = GOLDEN / version
    with tempfile.TemporaryDirectory() as temporary:
        port = free_port()
        os.environ["GOLDEN_PORT"] = str(port)
        run = Run(Path(temporary), (folder / "pipeline.toml").read_text())
        try:
            for part in (0, 1):  # the second run starts with a snapshot of the first run's journal
                run.start()
                send(port, b"".join(record + b"\n" for record in [*quotes(part), BAD]))
                for topic, count in expected(part + 1).items():
                    wait_until(lambda: run.topic(topic)["end"] == count, 240, topic)  # noqa: B023
                assert run.stop(60) == 0
        finally:
            run.end()
        shutil.rmtree(folder / "data", ignore_errors=True)
        for name in KEPT:
            source, target = run.data_dir / name, folder / "data" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target)
            else:
                shutil.copy(source, target)


if __name__ == "__main__":
    main(sys.argv[1])
