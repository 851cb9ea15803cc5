"""The writer in a browser: a page from a server of this machine's own address, which nobody else reaches."""

from __future__ import annotations

import hmac
import json
import math
import secrets
import threading
from functools import partial
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any

from graphnet.errors import GraphnetError
from graphnet_rnn.errors import UsageError
from graphnet_rnn.writer import Desk, Document, View

__all__ = ["WritingPage"]

#: Of probability, as colours.
LEVELS = 24
#: Bytes of a request at most.
LARGEST = 16 << 20
#: Seconds between signs of life, by which it is seen that a page was closed.
ALIVE = 10.0


class WritingPage:
    """Serves one draft at http://127.0.0.1:PORT/TOKEN/. Who does not know the token is told nothing.

    Orders come as POST requests, views go as events. Requests that name another host, or come from another page, are
    refused, so no other site in the same browser can write here.
    """

    def __init__(self, desk: Desk, document: Document, port: int = 0) -> None:
        self.desk, self.document = desk, document
        self.token = secrets.token_urlsafe(24)
        self._new = threading.Condition()
        self._count, self._sure, self._closed = 0, False, False
        page = self

        class Handler(_Handler):
            writing = page

        self.server = _Server(("127.0.0.1", port), Handler)

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server.server_port}/{self.token}/"

    def run(self) -> None:
        """Serves until `close`."""
        self.desk.listener = self._seen
        self.server.serve_forever(poll_interval=0.2)

    def close(self) -> None:
        """Ends the server, and the pages' events."""
        with self._new:
            self._closed = True
            self._new.notify_all()
        self.server.shutdown()
        self.server.server_close()

    def _seen(self, view: View) -> None:
        with self._new:
            self._count += 1
            self._new.notify_all()

    # -- what the page asks --------------------------------------------------------------------

    def page(self) -> str:
        """The page, all in one file."""
        from viz.text import SCALES, colour_of

        levels = range(LEVELS + 1)
        colours = {
            name: {
                "colours": [
                    "#{:02x}{:02x}{:02x}".format(*colour_of(i / LEVELS, SCALES[name])) for i in levels
                ],
                "ink": SCALES[name].ink,
            }
            for name in ("light", "dark")
        }
        parts = {
            "title": escape(self._name),
            "nonce": self.token,
            "colours": json.dumps(colours),
        }
        template = resources.files("graphnet_rnn.cli").joinpath("assets", "writer.html").read_text("utf-8")
        pieces = template.split("%%")
        return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))

    @property
    def _name(self) -> str:
        return "no name" if self.document.path is None else self.document.path.name

    def event(self, view: View, before: View | None) -> dict[str, Any]:
        """A view as JSON; its text only where it is another than before."""
        found: dict[str, Any] = {
            "name": self._name, "named": self.document.path is not None, "length": view.length,
            "suggestion": view.suggestion, "pending": view.pending, "paused": view.paused,
            "temperature": view.temperature, "bits": None if math.isnan(view.bits) else view.bits,
            "unknown": view.unknown, "lessons": view.lessons, "message": view.message, "changed": view.changed,
        }  # fmt: skip
        if before is None or before.text != view.text:
            known = self.desk.draft.vocabulary.characters
            found["text"] = view.text
            found["levels"] = [
                -2 if c not in known else -1 if nats is None else round(math.exp(-nats) * LEVELS)
                for c, nats in zip(view.text, view.nats, strict=True)
            ]
        return found

    def obey(self, orders: Any) -> None:
        """Carries them out, in order. UsageError for what is no order."""
        desk = self.desk
        if not isinstance(orders, list) or not all(isinstance(each, list) and each for each in orders):
            raise UsageError("orders are a list of lists, each with a name")
        for name, *values in orders:
            match name, values:
                case "type", [str(text)]:
                    desk.type(text)
                case (("accept" | "another" | "undo" | "pause"), []):
                    getattr(desk, name)()
                case "warm", [int(steps)]:
                    desk.warm(steps)
                case "save", [None | str()]:
                    desk.then(partial(self._save, name=values[0]))
                case _:
                    raise UsageError(f"there is no order {str(name)[:40]!r} with these values")
            if name != "save":
                self._sure = False

    def _save(self, text: str, name: str | None = None) -> None:
        """In the desk's thread; what went wrong is its message."""
        if name is not None:
            document = Document(name)
            assert document.path is not None
            self._sure = self._sure and self.document.path == document.path
            self.document = document
        try:
            self.document.save(text, over=self._sure)
        except GraphnetError as error:
            changed = self.document.path is not None and isinstance(error, UsageError)
            self._sure = changed
            raise UsageError(f"{error}{'; save again to write over it' if changed else ''}") from None
        self._sure = False
        self.desk.saved(text)

    def wait(self, count: int) -> int:
        """Until there is a newer view than the one of this number, or for a while; the number of the newest."""
        with self._new:
            self._new.wait_for(lambda: self._closed or self._count != count, ALIVE)
            return -1 if self._closed else self._count


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that was closed in the middle of an answer is no failure."""


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    writing: WritingPage
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "graphnet", ""

    def do_GET(self) -> None:
        match self._wanted():
            case "":
                self._answer(self.writing.page().encode(), "text/html; charset=utf-8")
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
            self.writing.obey(json.loads(self.rfile.read(size)))
        except (ValueError, RecursionError, UsageError) as error:
            self._answer(str(error).encode(), "text/plain; charset=utf-8", HTTPStatus.BAD_REQUEST)
            return
        self._answer(b"", "text/plain")

    def _wanted(self) -> str | None:
        """What comes after the token; None if the request was refused."""
        own = f"127.0.0.1:{self.writing.server.server_port}"
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        token, _, wanted = self.path.lstrip("/").partition("/")
        known = hmac.compare_digest(token.encode("utf-8", "replace"), self.writing.token.encode())
        if (
            host != own
            or origin not in (None, f"http://{own}")
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
        before: View | None = None
        number = 0
        try:
            while number >= 0:
                view = self.writing.desk.view
                if view is before:
                    self.wfile.write(b": alive\n\n")
                else:
                    data = json.dumps(self.writing.event(view, before), allow_nan=False)
                    self.wfile.write(f"data: {data}\n\n".encode())
                self.wfile.flush()
                before, number = view, self.writing.wait(number)
        except OSError:  # the page was closed
            pass

    def _answer(self, content: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        nonce = f"'nonce-{self.writing.token}'"
        policy = (
            f"default-src 'none'; script-src {nonce}; style-src {nonce}; connect-src 'self'; base-uri 'none'"
        )
        for name, value in (
            ("Content-Type", kind), ("Content-Length", str(len(content))), ("Cache-Control", "no-store"),
            ("Content-Security-Policy", f"{policy}; form-action 'none'; frame-ancestors 'none'"),
            ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"),
        ):  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _refuse(self, status: HTTPStatus) -> None:
        self.close_connection = True
        self._answer(status.phrase.encode(), "text/plain", status)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests hold the token; nothing is logged."""
