"""What the CLI and the HTTP API ask of the engine: a `Command` by name, answered by one JSON object.

| name              | args                          | reply                                                        |
|-------------------|-------------------------------|--------------------------------------------------------------|
| `health`          |                               | `{status, reasons: [str], pid, uptime_s, free_bytes}`        |
| `topics`          |                               | `{topics: [Topic]}`, hidden ones (`_dead`, …) included       |
| `topic`           | `name`                        | `Topic` with `readers: [Reader]`                             |
| `readers.ls`      | `topic` (optional)            | `{readers: [Reader]}`                                        |
| `readers.seek`    | `topic`, `reader`, `to`       | `Reader` after the move                                      |
| `readers.drop`    | `topic`, `reader`             | `{dropped: Reader}`                                          |
| `processors.ls`   |                               | `{processors: [Processor]}`                                  |
| `processors.retry`| `name`                        | `{queued: true, processor, action: "retry"}`                 |
| `processors.skip` | `name`                        | `{queued: true, processor, action: "skip"}`                  |
| `dlq.ls`          | `processor` (optional)        | `{total, groups: [DeadGroup]}`                               |
| `dlq.show`        | `processor`, `reason`, `limit` (20), `before` (all optional) | `{letters: [Letter]}`, newest |
| `dlq.replay`      | `processor`; `reason`, `offsets` optional | `{replayed, already, refused, refused_hint}`      |
| `metrics`         |                               | `{metrics: [Metric]}`                                        |
| `drain`           | `seconds` (5)                 | `{drained: true}` once sources stopped and sinks are flushed |

Shapes:
- `status`: `starting`, `ready`, `degraded` (with `reasons`), `draining`.
- `Topic`: `{name, storage, hidden, inc, floor, end, records, bytes, capacity_records, capacity_bytes, fill (0…1, null
  when unbounded), write_full, appended, appended_bytes, dropped, overwritten, lost, blocked_s, blocked_by, last_ts_ms,
  read_modes: [str]}`; `appended`, `dropped`, `overwritten` count since the engine's start.
- `Reader`: `{topic, name, position, behind (records), behind_ms, missed, lost_on_restart, idle_s}`; `to` of a seek is
  `earliest`, `end`, an offset or `-N`.
- `Processor`: `{name, plugin, role (source|transform|sink), where (engine|spark), state, detail, source, target,
  records, bytes, dead, behind, behind_ms, epoch, generation, connections, clients, batch_rows, batch_ms,
  rows_per_second, failures, trace}`; `state`: starting, running, waiting, failed, stopped, done.
- `DeadGroup`: `{reason, stage, processor, count, first_ts_ms, last_ts_ms}`. `before` and `offsets` are `dead_offset`s.
- `Letter`: `{dead_offset, reason, detail, stage, processor, topic, inc, offset, ts_ms, column, data (base64), truncated
  (only if cut: the original length)}`.
- `Metric`: `{name, type (counter|gauge), help, labels: {str: str}, value}`; names start with `gauss_`.

An unknown name or a missing argument is a ConfigError, an unknown topic, reader or processor NotFound.
"""
