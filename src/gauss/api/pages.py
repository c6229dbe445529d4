"""Self-contained HTML pages, without scripts and external resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from itertools import groupby
from typing import Any

from starlette.responses import HTMLResponse

from gauss.api.openapi import Operation, operations
from gauss.model.errors import GaussError

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: 0.9em; }
pre { padding: 0.75rem; border: 1px solid #8886; border-radius: 4px; overflow-x: auto; }
table { border-collapse: collapse; } th, td { text-align: left; padding: 0.2rem 1rem 0.2rem 0; vertical-align: top; }
"""
_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'", "Cache-Control": "no-store"}


def page(title: str, body: str, status: int = 200, headers: dict[str, str] | None = None) -> HTMLResponse:
    """An HTML page with a body."""
    text = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
        f"<h1>{escape(title)}</h1>{body}</html>"
    )
    return HTMLResponse(text, status, {**_HEADERS, **(headers or {})})


def refused(error: GaussError, status: int) -> HTMLResponse:
    """The page for a missing token; makes the browser ask for a password."""
    headers = {"WWW-Authenticate": 'Basic realm="gauss", charset="UTF-8"'} if status == 401 else {}
    body = (
        f"<p>{escape(error.message[:1].upper() + error.message[1:])}.</p>"
        "<p>The data directory of the run (<code>.gauss</code>, or <code>--data-dir</code>) has a token in"
        " <code>read.token</code>. In a browser, reload this page and enter it as the password, with any user name."
        " Elsewhere send it as a header:</p>"
        '<pre>curl -H "Authorization: Bearer $(cat .gauss/read.token)" URL</pre>'
        "<p><code>full.token</code> also allows changes.</p>"
    )
    return page("Gauss", body, status, headers)


def index(links: Mapping[str, str]) -> HTMLResponse:
    """The index page."""
    listed = "".join(f'<li><a href="{escape(path)}">{escape(name)}</a></li>' for name, path in links.items())
    return page("Gauss", f"<p>The HTTP API of a running pipeline.</p><ul>{listed}</ul>")


def reference(document: dict[str, Any]) -> HTMLResponse:
    """The reference page: all operations with their parameters."""
    found = sorted(operations(document), key=lambda operation: operation.tag)
    parts = [
        "<p>Every request needs a token: <code>Authorization: Bearer TOKEN</code>. The machine-readable form is"
        ' <a href="/openapi.json">/openapi.json</a>.</p>'
    ]
    for tag, group in groupby(found, key=lambda operation: operation.tag):
        parts.append(f"<h2>{escape(tag)}</h2>")
        for operation in group:
            parts += _operation(operation)
    return page("Gauss HTTP API", "".join(parts))


def _operation(operation: Operation) -> Iterator[str]:
    yield f"<h3><code>{escape(operation.method)} {escape(operation.path)}</code></h3><p>{escape(operation.summary)}."
    yield f" <small>Token: {escape(operation.token or 'none')}.</small></p>"
    if operation.socket:
        yield f"<p>As a WebSocket: {escape(operation.socket)}</p>"
    shown = [given for given in operation.parameters if given.where != "path" or given.meaning]
    if shown:
        yield "<table>"
        for given in shown:
            needed = "required" if given.required else given.where
            cells = (f"<code>{escape(given.name)}</code>", escape(given.type), needed, escape(given.meaning))
            yield "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
        yield "</table>"
