"""A schema registry that speaks the HTTP of Confluent's: schemas by id and by subject, with a login if one is set."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Registry:
    """What it answers, and what it was asked."""

    def __init__(self, answers: Mapping[str, Any], login: tuple[str, str] | None = None) -> None:
        self.answers = dict(answers)
        self.asked: list[str] = []
        self._login = login and "Basic " + base64.b64encode(":".join(login).encode()).decode()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                found = registry.answers.get(self.path)
                status = 200 if found else 404
                if registry._login and self.headers["Authorization"] != registry._login:
                    found, status = {"error_code": 40101}, 401
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(found or {"error_code": 40403}).encode())

            def log_message(self, *_: Any) -> None:
                """Logs nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Goes away: connections are refused. Idempotent."""
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def registry(answers: Mapping[str, Any], login: tuple[str, str] | None = None) -> Iterator[Registry]:
    found = Registry(answers, login)
    try:
        yield found
    finally:
        found.close()
