"""Tokens and roles; the description equals what is served."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect as connect_socket
from websockets.typing import Origin

from api.fleet.conftest import Fleet
from gauss.api import gate
from gauss.api.fleet import checking, drafts, files, history, observing, overview, pipelines, running, sessions
from gauss.api.fleet.app import create_fleet_app
from gauss.api.fleet.overview import FleetFigures
from gauss.api.fleet.sessions import Sessions
from gauss.fleet.store.access import Role


def test_only_probes_and_the_sign_in_need_no_token(fleet: Fleet) -> None:
    with httpx.Client(base_url=fleet.url) as client:
        document = fleet.client().get("/openapi.json").json()
        for path, methods in document["paths"].items():
            for method in methods:
                status = client.request(method, path.replace("{", "").replace("}", "")).status_code
                sign_in = (method, path) == ("post", "/api/session")
                assert status == (200 if path in ("/healthz", "/readyz") else 422 if sign_in else 401), path
        for given in ("Bearer x", "Basic eDp4", f"Basic {fleet.tokens[Role.ADMIN]}", "Bearer"):
            assert client.get("/api/pipelines", headers={"Authorization": given}).status_code == 401
        assert client.get(f"/api/pipelines?token={fleet.tokens[Role.ADMIN]}").status_code == 401


def test_each_role_may_do_what_the_description_says(fleet: Fleet) -> None:
    document = fleet.client().get("/openapi.json").json()
    for role in Role:
        with fleet.client(role) as client:
            for path, methods in document["paths"].items():
                for method, operation in methods.items():
                    if "101" in operation["responses"] or not (needed := operation.get("x-token")):
                        continue
                    found = client.request(method, path.replace("{", "").replace("}", "")).status_code
                    assert (found == 403) == (Role[needed.upper()] > role), (method, path, role)


def sign_in(client: httpx.Client, **given: str) -> httpx.Response:
    return client.post("/api/session", json=given)


def test_a_code_opens_one_session_with_at_most_its_role(fleet: Fleet) -> None:
    with fleet.client() as admin:
        code = admin.post("/api/session/codes", json={"role": "viewer"}).json()["url"].partition("#")[2]
    with httpx.Client(base_url=fleet.url) as browser:
        found = sign_in(browser, code=code)
        assert found.json() == {"role": "viewer"}
        assert "HttpOnly" in found.headers["set-cookie"] and "SameSite=strict" in found.headers["set-cookie"]
        assert browser.get("/api/pipelines").status_code == 200
        origin = {"Origin": fleet.url}
        assert browser.post("/api/pipelines", json={"name": "x"}, headers=origin).status_code == 403
        assert sign_in(httpx.Client(base_url=fleet.url), code=code).status_code == 401
        assert browser.delete("/api/session", headers=origin).json() == {"role": None}
        assert browser.get("/api/pipelines").status_code == 401


def test_an_operator_cannot_give_away_the_role_of_an_admin(fleet: Fleet) -> None:
    with fleet.client(Role.OPERATOR) as client:
        assert client.post("/api/session/codes", json={"role": "admin"}).status_code == 403
        assert client.post("/api/session/codes", json={"role": "operator"}).status_code == 200


def test_a_session_ends_with_its_token_and_serves_no_other_origin(fleet: Fleet) -> None:
    with fleet.client() as admin, httpx.Client(base_url=fleet.url) as browser:
        made = admin.post("/api/tokens", json={"name": "ann", "role": "operator"}).json()
        assert sign_in(browser, token=made["token"]).json() == {"role": "operator"}
        assert browser.post("/api/pipelines", json={"name": "x"}).status_code == 403  # no Origin
        for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            assert browser.get("/api/pipelines", headers=headers).status_code == 403
        assert browser.get("/api/pipelines", headers={"Authorization": "Basic eDp4"}).status_code == 401
        admin.delete(f"/api/tokens/{made['id']}")
        assert browser.get("/api/pipelines").status_code == 401


@pytest.mark.parametrize("cookie", ["x", "", "AAAA", "a" * 5000, "é"])
def test_a_forged_session_is_refused(fleet: Fleet, cookie: str) -> None:
    port = fleet.url.rpartition(":")[2]
    headers = {b"Cookie": f"gauss_{port}={cookie}".encode()}
    assert httpx.get(f"{fleet.url}/api/pipelines", headers=headers).status_code == 401


def test_the_overview_has_all_pipelines_and_workers(fleet: Fleet) -> None:
    with fleet.client() as client:
        made = client.post("/api/pipelines", json={"name": "orders"}).json()
        client.put(f"/api/pipelines/{made['id']}/kafka-config", json={"brokers": ["b:1"], "topic": "o.eu"})
        client.put(f"/api/pipelines/{made['id']}/clickhouse-config", json={"dsn": "http://h"})
        found = client.get("/api/overview").json()
    row = found["pipelines"][made["id"]]
    assert (row["observed"], row["held"], row["topic"], row["table"]) == ("stopped", 0, "o.eu", "default.o_eu")
    assert (row["rate"], row["insertMs"], found["workers"]) == (0.0, None, [])


def test_a_revoked_token_is_refused_at_once(fleet: Fleet) -> None:
    with fleet.client() as admin:
        made = admin.post("/api/tokens", json={"name": "ci", "role": "viewer"}).json()
        headers = {"Authorization": f"Bearer {made['token']}"}
        assert httpx.get(f"{fleet.url}/api/workers", headers=headers).status_code == 200
        assert made["token"] not in admin.get("/api/tokens").text
        admin.delete(f"/api/tokens/{made['id']}")
        assert httpx.get(f"{fleet.url}/api/workers", headers=headers).status_code == 401


def test_the_audit_log_names_the_token_that_made_a_change(fleet: Fleet) -> None:
    with fleet.client(Role.OPERATOR) as client:
        client.post("/api/pipelines", json={"name": "orders"})
        entry = client.get("/api/audit").json()[0]
    assert (entry["who"], entry["action"], entry["detail"]) == ("operator", "pipeline.create", {"name": "orders"})


def test_the_description_has_every_route_and_no_other(fleet: Fleet) -> None:
    app = create_fleet_app(fleet.store)
    routers = [module.routes(fleet.store) for module in (pipelines, running, checking, drafts, history)]
    routers += [observing.routes(fleet.store, app), overview.routes(FleetFigures(fleet.store))]
    routers += [sessions.routes(Sessions(fleet.store)), files.routes()]
    routes: list[Any] = [route for router in routers for route in router.routes]
    served = {(route.path, method.lower()) for route in routes for method in getattr(route, "methods", None) or ["get"]}
    document = app.openapi()
    assert {(path, method) for path, methods in document["paths"].items() for method in methods} == served
    named = json.dumps(document).split('"#/components/schemas/')[1:]
    assert {each.partition('"')[0] for each in named} <= set(document["components"]["schemas"])


def test_events_tell_what_changes(fleet: Fleet) -> None:
    url = fleet.url.replace("http", "ws", 1) + "/api/events"
    with pytest.raises(Exception, match="401"):
        connect_socket(url)
    with fleet.client() as client, connect_socket(f"{url}?token={fleet.tokens[Role.VIEWER]}") as socket:
        assert json.loads(socket.recv(timeout=20)) == {"pipelines": [], "deleted": []}
        made = client.post("/api/pipelines", json={"name": "orders"}).json()
        (shown,) = json.loads(socket.recv(timeout=20))["pipelines"]
        assert (shown["id"], shown["observed"]) == (made["id"], "stopped")
        client.delete(f"/api/pipelines/{made['id']}")
        assert json.loads(socket.recv(timeout=20))["deleted"] == [made["id"]]


def test_a_socket_ends_with_its_token(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "SOCKET_CHECK_SECONDS", 0.0)
    token, text = fleet.store.tokens.create("ann", Role.VIEWER, "me")
    url = fleet.url.replace("http", "ws", 1) + "/api/events"
    with fleet.client() as client, httpx.Client(base_url=fleet.url) as browser:
        assert sign_in(browser, token=text).status_code == 200
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        headers = {"Cookie": cookie}
        with (
            connect_socket(f"{url}?token={text}") as named,
            connect_socket(url, additional_headers=headers, origin=Origin(fleet.url)) as signed_in,
        ):
            for socket in (named, signed_in):
                assert json.loads(socket.recv(timeout=20))["pipelines"] == []
            fleet.store.tokens.revoke(token.id, "me")
            client.post("/api/pipelines", json={"name": "secret"})
            for socket in (named, signed_in):
                with pytest.raises(ConnectionClosed, match="1008"):
                    socket.recv(timeout=20)


def test_metrics_count_slots_and_pipelines(fleet: Fleet) -> None:
    with fleet.client() as client:
        made = client.post("/api/pipelines", json={"name": 'or"ders'}).json()
        client.put(f"/api/pipelines/{made['id']}/state", json={"desired": "started", "replicas": 3})
        fleet.store.leases.acquire("w", [(made["id"], 0)], 60_000)
        text = client.get("/metrics").text
    labels = f'{{pipeline="or\\"ders",pipeline_id="{made["id"]}"}}'
    assert f"gauss_fleet_slots_desired{labels} 3\n" in text
    assert f"gauss_fleet_slots_held{labels} 1\n" in text


def test_a_store_that_is_away_is_an_error_that_a_retry_may_cure(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    from gauss.model.errors import Unavailable

    def away(*_: object) -> None:
        raise Unavailable("the store does not answer")

    with fleet.client() as client:
        monkeypatch.setattr(fleet.store.tokens, "find", away)
        found = client.get("/api/pipelines")
        assert found.status_code == 503
        assert found.json()["error"]["retryable"] is True
