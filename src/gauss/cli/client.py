"""HTTP client of a run, found by the `engine.json` of its data directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from gauss.clients.rest import RestClient
from gauss.model.errors import Unavailable

if TYPE_CHECKING:
    from http.client import HTTPConnection

DEFAULT_DATA_DIR = Path(".gauss")
DataDirOption = Annotated[
    Path, typer.Option("--data-dir", help="The data directory of the run.", envvar="GAUSS_DATA_DIR", show_default=True)
]


class RunClient(RestClient):
    """Client of one run."""

    server = "the run"
    hint = "check that `gauss run` is still running"

    def __init__(self, data_dir: Path, timeout: float | None = 30.0) -> None:
        self.data_dir = data_dir
        self.timeout = timeout
        endpoint, token, self._cert = _find(data_dir)
        super().__init__(endpoint, token)

    def connection(self) -> HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection

        url = urlsplit(self.endpoint)
        assert url.hostname is not None
        if url.scheme != "https":
            return HTTPConnection(url.hostname, url.port, timeout=self.timeout)
        import ssl

        # The certificate itself is pinned, so its host name and issuer do not matter.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            context.load_verify_locations(self._cert)
        except OSError as error:
            raise Unavailable(f"the certificate {self._cert} of the run can't be read: {error}") from error
        return HTTPSConnection(url.hostname, url.port, timeout=self.timeout, context=context)


def _find(data_dir: Path) -> tuple[str, str, str]:
    """Address, token and, for HTTPS, the certificate of a run."""
    path = data_dir / "engine.json"
    try:
        found = json.loads(path.read_bytes())
        endpoint = urlsplit(str(found["endpoint"]))
        if endpoint.hostname is None or endpoint.port is None:
            raise ValueError(f"expected an http URL as endpoint, found {found['endpoint']!r}")
        if Path(f"/proc/{int(found['pid'])}").exists():
            return str(found["endpoint"]), str(found["token"]), str(found.get("cert", ""))
        why = f"the run that used {data_dir} (pid {found['pid']}) is gone"
    except FileNotFoundError:
        why = f"nothing runs with the data directory {data_dir}"
    except PermissionError:
        raise Unavailable(f"{path} belongs to another user", hint="run this command as the user of gauss run") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = f"{path} can't be read: {error}"
    raise Unavailable(why, hint="start it with gauss run FILE, or name its directory with --data-dir")
