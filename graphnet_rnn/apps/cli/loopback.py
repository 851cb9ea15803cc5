"""Local web server for a page, protected by a token."""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import sys
import threading
import webbrowser
from abc import ABC, abstractmethod
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from graphnet.system.text import read_json
from graphnet_rnn.errors import UsageError

#: Maximum size of a request, in bytes.
LARGEST = 16 << 20
#: Seconds between heartbeats, which detect closed pages.
ALIVE = 10.0
#: Timeout of a request, in seconds.
SILENCE = 30.0


class Loopback(ABC):
    """Server at http://127.0.0.1:PORT/TOKEN/ for this machine only.

    Requests with another host or from another page are rejected, so other sites in the same browser have no access. The
    page runs only scripts with its nonce, and loads nothing from elsewhere.
    """

    def __init__(self, port: int = 0) -> None:
        self.token = secrets.token_urlsafe(24)
        self._new = threading.Condition()
        self._count, self._closed = 0, False
        pages = self

        class Handler(_Handler):
            served = pages

        self.server = _Server(("127.0.0.1", port), Handler)

    @abstractmethod
    def page(self) -> str:
        """HTML page, whose scripts and styles have self.token as nonce."""

    @abstractmethod
    def event(self, before: Any) -> tuple[dict[str, Any] | None, Any]:
        """Returns the changes since `before` (None: everything) as JSON data, and the state for the next call."""

    def obey(self, orders: Any) -> None:
        """Executes orders of a page. Raises UsageError for unknown orders."""
        raise UsageError("this page has no orders")

    @property
    def address(self) -> str:
        """URL of the page."""
        return f"http://127.0.0.1:{self.server.server_port}/{self.token}/"

    @contextlib.contextmanager
    def served(self, sentence: str) -> Iterator[threading.Thread]:
        """Context manager that serves the page in a thread.

        sentence: message to print, with {} for the address. On a terminal, a browser opens the page.
        """
        thread = threading.Thread(target=self.run, daemon=True)
        thread.start()
        try:
            print(sentence.format(self.address), flush=True)
            if sys.stdout.isatty():
                webbrowser.open(self.address)
            yield thread
        finally:
            self.close()

    def run(self) -> None:
        """Serves until `close`."""
        self.server.serve_forever(poll_interval=0.2)

    def close(self) -> None:
        """Stops the server and event streams."""
        with self._new:
            self._closed = True
            self._new.notify_all()
        self.server.shutdown()
        self.server.server_close()

    def changed(self) -> None:
        """Notifies pages of a change."""
        with self._new:
            self._count += 1
            self._new.notify_all()

    def wait(self, count: int) -> int:
        """Waits for a change after number `count`, or a timeout; returns the number of the last change, or -1."""
        with self._new:
            self._new.wait_for(lambda: self._closed or self._count != count, ALIVE)
            return -1 if self._closed else self._count


class _Server(ThreadingHTTPServer):
    """Server that ignores errors from pages closed during a response."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


class _Handler(BaseHTTPRequestHandler):
    served: Loopback
    timeout = SILENCE
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "graphnet", ""

    def do_GET(self) -> None:
        match self._wanted():
            case "":
                self._answer(self.served.page().encode(), "text/html; charset=utf-8")
            case "events":
                self._events()
            case None:
                pass
            case _:
                self._refuse(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        wanted = self._wanted()
        if wanted != "orders":
            if wanted is not None:
                self._refuse(HTTPStatus.NOT_FOUND)
            return
        try:
            size = int(self.headers.get("Content-Length", ""))
        except ValueError:
            self._refuse(HTTPStatus.LENGTH_REQUIRED)
            return
        if not 0 <= size <= LARGEST:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        try:
            self.served.obey(read_json(self.rfile.read(size)))
        except (ValueError, UsageError) as error:
            self._answer(str(error).encode(), "text/plain; charset=utf-8", HTTPStatus.BAD_REQUEST)
            return
        self._answer(b"", "text/plain")

    def _wanted(self) -> str | None:
        """Path after the token; None for a rejected request."""
        own = f"127.0.0.1:{self.served.server.server_port}"
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        token, _, wanted = self.path.lstrip("/").partition("/")
        known = hmac.compare_digest(token.encode("utf-8", "replace"), self.served.token.encode())
        if (
            host != own
            or origin not in (None, f"http://{own}")
            or self.headers.get("Sec-Fetch-Site") not in (None, "none", "same-origin")
            or not known
            or f"/{token}/{wanted}" != self.path
        ):
            self._refuse(HTTPStatus.FORBIDDEN)
            return None
        return wanted

    def _events(self) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.close_connection = True
        before: Any = None
        number = 0
        try:
            while number >= 0:
                data, before = self.served.event(before)
                if data is None:
                    self.wfile.write(b": alive\n\n")
                else:
                    self.wfile.write(f"data: {json.dumps(data, allow_nan=False)}\n\n".encode())
                self.wfile.flush()
                number = self.served.wait(number)
        except OSError:  # the page was closed
            pass

    def _answer(self, content: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        nonce = f"'nonce-{self.served.token}'"
        policy = (
            f"default-src 'none'; script-src {nonce}; style-src {nonce}; img-src data:; connect-src 'self'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        for name, value in (
            ("Content-Type", kind), ("Content-Length", str(len(content))), ("Cache-Control", "no-store"),
            ("Content-Security-Policy", policy), ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
        ):  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _refuse(self, status: HTTPStatus) -> None:
        self.close_connection = True
        self._answer(status.phrase.encode(), "text/plain", status)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing, as requests contain the token."""
