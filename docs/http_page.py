"""Writes docs/http.md: the text below, and every operation of the API's own description."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any, cast

PAGE = Path(__file__).parent / "http.md"
NOTE = "<!-- Written by docs/http_page.py and from the API's OpenAPI: change those, then run `make docs`. -->\n\n"
OPENING = """# HTTP API

`gauss run` serves an API on loopback. `gauss run` prints its address; `engine.json` in the data directory has it too.
With a fixed port it is always the same:

```toml
[[formats]]
name = "quote"
plugin = "json"
config = { fields = [{ name = "symbol", type = "string" }, { name = "bid", type = "double" }] }

[[topics]]
name = "quotes"
storage = "memory"

[[topics]]
name = "prices"
storage = "memory"
storage_config = { mode = "table", format = "quote", key_field = "symbol" }

[api]
port = 8042
```

## Tokens

Every request needs a token, and is refused with 401 before its body is read if it has none. Two files in the data
directory (mode 0600) hold one each; they are made by the first run and stay the same:

| file | allows |
|---|---|
| `read.token` | every `GET`, every WebSocket, scans and `/metrics`; anything else is 403 |
| `full.token` | everything |

Send it as `Authorization: Bearer TOKEN`. A WebSocket may send it as `?token=`, since a browser can't set its headers.
In a browser, any page of the API asks for a password: give a token, with any user name; it allows reading only. To
replace a token, remove its file and start the run again.

`/livez` and `/readyz` need no token and say only `up` or `down`: for a load balancer or a container's probes.

## Examples

These run in the folder of the pipeline above, while `gauss run` does:

```sh
curl -sS http://127.0.0.1:8042/readyz
# {"status":"up"}
AUTH="Authorization: Bearer $(cat .gauss/full.token)"
printf '{"symbol":"BTC","bid":1.5}\\n{"symbol":"ETH","bid":2.5}\\n' |
  curl -sS -H "$AUTH" --data-binary @- http://127.0.0.1:8042/api/topics/quotes/records
# {"accepted":2}
printf '{"symbol":"BTC","bid":3.5}\\n' |
  curl -sS -H "$AUTH" --data-binary @- http://127.0.0.1:8042/api/topics/prices/records
# {"accepted":1}
```

```sh
AUTH="Authorization: Bearer $(cat .gauss/read.token)"
curl -sS -H "$AUTH" http://127.0.0.1:8042/api/topics/quotes
# "end":2
curl -sS -H "$AUTH" "http://127.0.0.1:8042/api/topics/quotes/query?from=-1h&limit=1&format=quote"
# "data":{"symbol":"BTC","bid":1.5}
# "next":1
curl -sS -H "$AUTH" "http://127.0.0.1:8042/api/topics/quotes/query?after=1&format=quote"
# "next":null
curl -sS -H "$AUTH" "http://127.0.0.1:8042/api/topics/quotes/tail?start=earliest&limit=2"
# "offset":1
curl -sS -H "$AUTH" -G http://127.0.0.1:8042/api/topics/quotes/scan \\
  --data-urlencode 'program=select(.bid > 2) | {symbol}' --data-urlencode format=quote
# {"symbol":"ETH"}
curl -sS -H "$AUTH" http://127.0.0.1:8042/api/topics/prices/snapshot
# "BTC": {"symbol":"BTC","bid":3.5}
curl -sS -H "$AUTH" http://127.0.0.1:8042/metrics
# gauss_up 1
```

What is refused has one shape, whatever refused it:

```sh
curl -sS -H "Authorization: Bearer $(cat .gauss/read.token)" -X POST http://127.0.0.1:8042/api/dlq/replay
# {"error":{"code":"forbidden","message":"this token only allows reading
```

A subscription is a WebSocket: `ws://127.0.0.1:8042/api/topics/prices/subscribe?mode=changes&token=…`. It closes with
1000 at its end, 1001 when the run stops, and 4000 + status after an error, which is its last message. A handshake
without a valid token is answered by 401.

Prometheus reads the token from its file:

```yaml
scrape_configs:
  - job_name: gauss
    authorization: { credentials_file: /var/lib/gauss/read.token }
    static_configs: [{ targets: ["127.0.0.1:8042"] }]
```

## Beyond this machine

Another `[api] host` than loopback needs `tls = { cert = "cert.pem", key = "key.pem" }`, or `allow = ["10.0.0.0/8"]`:
addresses and networks that may connect (those of this machine always may). `gauss check` refuses it otherwise: the
token would go over the network as plain text.

## Limits

| of | limit | then |
|---|---|---|
| a request's head | 32 KiB, 10 s | 431, or the connection is closed |
| a body | 1 MiB, 30 s; records are taken piece by piece and have no limit but 16 MiB each | 413, 408 |
| a page of `query` | 10,000 records or 8 MiB, whatever `limit` says | `next` is where the next page begins |
| a message of a WebSocket client | 1 MiB | 1009 |
| connections | 1,000, or half of the open files that the process may have | the one that waits longest is closed |
| connections without a request | 128, and 5 s after an answer | the same |

"""


def page() -> str:
    from gauss.api.app import create_app
    from gauss.api.openapi import STATUSES, Operation, operations
    from gauss.stream.control.run import Running

    document = create_app(cast(Running, None)).openapi()
    found = operations(document)
    tags = list(dict.fromkeys(operation.tag for operation in found))
    found.sort(key=lambda operation: tags.index(operation.tag))
    parts = [NOTE, OPENING, "## Statuses\n\n| status | meaning |\n|---|---|\n"]
    parts += [f"| {status} | {meaning} |\n" for status, meaning in STATUSES.items()]
    parts.append("\n## Operations\n\nThe same for machines: `/openapi.json`; as a page of a run: `/docs`.\n")

    def one(operation: Operation) -> str:
        token = f"Token: `{operation.token}`." if operation.token else "No token."
        text = f"\n#### `{operation.method} {operation.path}`\n\n{operation.summary.rstrip('.')}. {token}\n"
        if operation.socket:
            text += f"\nAs a WebSocket: {operation.socket}\n"
        given = [each for each in operation.parameters if each.where != "path" or each.meaning]
        if given:
            text += "\n| parameter | in | type | meaning |\n|---|---|---|---|\n"
            text += "".join(_row(each) for each in given)
        return text

    for tag, group in groupby(found, key=lambda operation: operation.tag):
        parts.append(f"\n### {tag[:1].upper()}{tag[1:]}\n")
        parts += [one(operation) for operation in group]
    return "".join(parts)


def _row(given: Any) -> str:
    meaning = "; ".join(filter(None, ["required" if given.required else "", given.meaning])).replace("|", "\\|")
    return f"| `{given.name}` | {given.where} | {given.type} | {meaning} |\n"
