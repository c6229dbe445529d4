"""Who may open the pages, and what a page may do."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect as ws_connect

from helpers.run import GAUSS, free_port
from helpers.waiting import wait_until
from web.conftest import Pages

pytestmark = pytest.mark.system


def ask(pages: Pages, path: str, method: str = "GET", body: Any = None, **headers: str) -> tuple[int, Any, Any]:
    data = None if body is None else json.dumps(body).encode()
    given = {key.replace("_", "-"): value for key, value in headers.items()}
    if body is not None:
        given.setdefault("Content-Type", "application/json")
    request = urllib.request.Request(pages.endpoint + path, data=data, method=method, headers=given)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, reply.headers, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def signed_in(pages: Pages, role: str = "operator") -> str:
    """The cookie of a session."""
    code = pages.url(role).partition("#")[2]
    status, headers, _ = ask(pages, "/api/session", "POST", {"code": code})
    assert status == 200
    return str(headers["Set-Cookie"])


def test_run_prints_a_link_that_opens_signed_in_once(pages: Pages) -> None:
    link = next(word for word in pages.run.output.read_text().split() if word.startswith("http"))
    context = pages.browser.new_context()
    page = context.new_page()
    page.goto(link)
    page.wait_for_selector("main h1")
    assert "#" not in page.url
    again = pages.browser.new_context()
    other = again.new_page()
    other.goto(link)
    other.wait_for_selector("form")
    assert "used before" in other.inner_text("output")
    context.close()
    again.close()


def browser_of(folder: Path) -> dict[str, str]:
    """An environment whose browser writes down what it should open."""
    script = folder / "browser.sh"
    script.write_text(f'#!/bin/sh\necho "$1" >> {folder}/opened\n')
    script.chmod(0o755)
    return {**os.environ, "BROWSER": f"{script} %s"}


def test_open_opens_the_browser_or_prints_a_link_for_viewers(pages: Pages, tmp_path: Path) -> None:
    command = [GAUSS, "open", "--data-dir", str(pages.run.data_dir)]
    subprocess.run(command, env=browser_of(tmp_path), check=True, capture_output=True, timeout=60)
    link = wait_until(
        lambda: (tmp_path / "opened").exists() and (tmp_path / "opened").read_text().strip(), what="a link"
    )
    assert link.startswith(f"{pages.endpoint}/#")
    printed = pages.run.cli("open", "--viewer", "--print").stdout.strip()
    status, _, body = ask(pages, "/api/session", "POST", {"code": printed.partition("#")[2]})
    assert (status, json.loads(body)) == (200, {"role": "viewer"})


def test_run_with_open_opens_its_pages(tmp_path: Path) -> None:
    (tmp_path / "gauss.toml").write_text(
        'topics = [{ name = "raw", storage = "memory" }]\n[[processors]]\nname = "feed"\nplugin = "tcp-source"\n'
        f'target = {{ topic = "raw" }}\nconfig = {{ port = {free_port()},'
        ' input = { framing = "newline", delimiter = "\\n" } }\n'
    )
    command = [GAUSS, "run", str(tmp_path), "--open", "--quiet", "--for", "1s"]
    subprocess.run(command, cwd=tmp_path, env=browser_of(tmp_path), check=True, capture_output=True, timeout=120)
    assert (tmp_path / "opened").read_text().startswith("http://127.0.0.1:")


def test_a_token_signs_in_where_there_is_no_link(pages: Pages) -> None:
    context = pages.browser.new_context()
    page = context.new_page()
    page.goto(pages.endpoint + "/topics")
    page.fill("input[name=token]", (pages.run.data_dir / "read.token").read_text())
    page.click("text=Sign in >> nth=-1")
    page.wait_for_selector("nav.rail")
    page.wait_for_selector("text=viewer")
    assert page.url.endswith("/topics")
    context.close()


def test_cookie_is_hidden_from_scripts_and_other_sites(pages: Pages) -> None:
    cookie = signed_in(pages)
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie
    token = (pages.run.data_dir / "full.token").read_text()
    assert token not in cookie


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Origin": "null"},
    ],
)
def test_pages_of_other_origins_cannot_use_a_session(pages: Pages, headers: dict[str, str]) -> None:
    cookie = signed_in(pages).partition(";")[0]
    status, _, body = ask(pages, "/api/topics", Cookie=cookie, **headers)
    assert status == 403 and b"forbidden" in body
    status, _, _ = ask(pages, "/api/dlq/replay", "POST", {}, Cookie=cookie, **headers)
    assert status == 403


def test_a_change_by_cookie_needs_the_origin(pages: Pages) -> None:
    cookie = signed_in(pages).partition(";")[0]
    assert ask(pages, "/api/dlq/replay", "POST", {}, Cookie=cookie)[0] == 403
    assert ask(pages, "/api/dlq/replay", "POST", {}, Cookie=cookie, Origin=pages.endpoint)[0] == 200


def test_the_socket_of_pages_refuses_strangers_and_foreign_origins(pages: Pages) -> None:
    url = pages.endpoint.replace("http", "ws") + "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    cookie = signed_in(pages).partition(";")[0]
    for headers, origin, status in (
        ({}, pages.endpoint, 401),
        ({"Cookie": cookie}, "http://evil.example", 403),
        ({"Cookie": cookie}, None, 403),
    ):
        with pytest.raises(InvalidStatus) as refused:
            ws_connect(url, additional_headers=headers, origin=origin, open_timeout=30)  # type: ignore[arg-type]
        assert refused.value.response.status_code == status


@pytest.mark.parametrize("cookie", ["operator.9999999999.00", "viewer.1.x", "x", "operator..", "administrator.9.9"])
def test_forged_sessions_are_refused(pages: Pages, cookie: str) -> None:
    port = pages.endpoint.rpartition(":")[2]
    assert ask(pages, "/api/topics", Cookie=f"gauss_{port}={cookie}")[0] == 401


def test_the_session_of_a_viewer_cannot_be_raised(pages: Pages) -> None:
    name, _, value = signed_in(pages, "viewer").partition(";")[0].partition("=")
    raised = value.replace("viewer", "operator", 1)
    assert ask(pages, "/api/topics", Cookie=f"{name}={raised}")[0] == 401


def test_pages_have_a_strict_policy_and_cannot_be_framed(pages: Pages) -> None:
    cookie = signed_in(pages).partition(";")[0]
    status, headers, body = ask(pages, "/", Cookie=cookie, Accept="text/html")
    policy = headers["Content-Security-Policy"]
    assert status == 200 and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert "default-src 'none'" in policy and headers["X-Frame-Options"] == "DENY"
    assert len(body) < 60_000
    assert b"http://" not in body.replace(b"http://www.w3.org", b"") and b"https://" not in body


def test_actions_of_a_viewer_are_refused_by_the_api_and_off_in_the_page(pages: Pages) -> None:
    with pages.opened("/?processor=high", role="viewer") as page:
        page.wait_for_selector("[data-testid=rebuild]")
        assert page.is_disabled("[data-testid=rebuild]")
        for method, path in (
            ("POST", "/api/processors/high/retry"),
            ("POST", "/api/processors/high/skip"),
            ("POST", "/api/readers/raw/high/seek"),
            ("POST", "/api/dlq/replay"),
            ("POST", "/api/dlq/discard"),
            ("POST", "/api/topics/raw/records"),
            ("POST", "/api/syncs/orders/run"),
            ("POST", "/api/syncs/orders/stop"),
            ("PUT", "/api/syncs/orders/streams/orders/cursor"),
        ):
            said = page.evaluate(
                "([path, method]) => fetch(path, { method })"
                ".then(async (reply) => [reply.status, (await reply.json()).error.code])",
                [path, method],
            )
            assert said == [403, "forbidden"], path


def test_signing_out_ends_the_session(pages: Pages) -> None:
    with pages.opened() as page:
        page.evaluate("fetch('/api/session', { method: 'DELETE' })")
        page.reload()
        page.wait_for_selector("form")
