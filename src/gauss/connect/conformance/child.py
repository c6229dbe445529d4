"""A process that runs one sync, and may be killed in it: reads a job as a line of JSON from stdin."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gauss.config.syncs import SyncDef
from gauss.connect.conformance.kit_sync import KitSync, described
from gauss.connect.conformance.watch import kill_at

FAILED = 3


def main() -> int:
    line = sys.stdin.readline()
    if not line:  # not needed
        return 0
    job = json.loads(line)
    sync = KitSync(SyncDef.model_validate(job["sync"]), Path(job["base_dir"]), Path(job["data_dir"]))
    if job["call"]:
        hook = kill_at(job["call"], job["delay_s"])
        for record in sync.records.values():
            record.on_call = hook
    result = sync.run()
    if result.error is not None:
        print(described(result.error), file=sys.stderr)
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
