"""Self-contained HTML pages that need nothing else: the reference, and the sign-in."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
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
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}


SIGN_IN = """
const form = document.querySelector("form"), said = document.querySelector("output");
async function send(given) {
  const reply = await fetch("/api/session", given ? {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(given) } : {});
  if (reply.ok) return location.replace(location.pathname + location.search);
  if (given) { const { error } = await reply.json(); said.textContent = `${error.message}: ${error.hint}`; }
  form.hidden = false;
}
const code = location.hash.slice(1);
history.replaceState(null, "", location.pathname + location.search);
send(code ? { code } : null);
form.addEventListener("submit", (event) => { event.preventDefault(); send({ token: form.token.value.trim() }); });
"""
_SIGN_IN_HASH = base64.b64encode(hashlib.sha256(SIGN_IN.encode()).digest()).decode()


RUN_TOKENS = (
    "<p>The data directory of the run (<code>.gauss</code>, or <code>--data-dir</code>) has one in"
    " <code>read.token</code> and one in <code>full.token</code>, which also allows changes."
    " <code>gauss open</code> prints a link that needs none. Programs send a token as a header:</p>"
    '<pre>curl -H "Authorization: Bearer $(cat .gauss/read.token)" URL</pre>'
)
"""Where the tokens of a run are."""
FLEET_TOKENS = (
    "<p><code>gauss serve</code> prints a link that needs none, and writes a token to <code>serve.json</code> in its"
    " data directory. Admins make tokens for others: <code>POST /api/tokens</code>.</p>"
)
"""Where the tokens of a fleet are."""


def page(title: str, body: str, status: int = 200, headers: dict[str, str] | None = None) -> HTMLResponse:
    """An HTML page with a body."""
    text = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
        f"<h1>{escape(title)}</h1>{body}</html>"
    )
    return HTMLResponse(text, status, {**_HEADERS, **(headers or {})})


def refused(error: GaussError, status: int, tokens: str) -> HTMLResponse:
    """The page for a request without a session. It signs in by the code in the fragment, or asks for a token. A browser
    that comes from another site has not sent its cookie: the page sees that it has one and loads again. `tokens`: where
    a person finds a token, as HTML."""
    if status != 401:
        return page("Gauss", f"<p>{escape(error.message)}.</p><p>{escape(error.hint)}</p>", status)
    body = (
        "<p><output></output></p>"
        '<form hidden><p><label>Token <input name="token" type="password" autocomplete="off" required>'
        "</label> <button>Sign in</button></p></form>"
        f"{tokens}"
        f"<script>{SIGN_IN}</script>"
    )
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_SIGN_IN_HASH}'; connect-src 'self';"
        " form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
    )
    return page("Sign in to Gauss", body, status, {"Content-Security-Policy": policy})


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
