"""A way to the service that loses requests and answers, always in the same places."""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Asked = tuple[str, str]


@dataclass
class Losses:
    """What came by.

    Attributes:
        url: Where clients ask.
        asked: Method and path of every request, in order.
        requests: How many requests were lost before they reached the service.
        answers: How many answers were cut in their middle.
    """

    url: str
    asked: list[Asked] = field(default_factory=list)
    requests: int = 0
    answers: int = 0


@contextmanager
def lossy(port: int) -> Iterator[Losses]:
    """Give a way to a port of this machine: of eleven requests one is lost, and two answers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            """Pass a request on, or its answer back, or a part of it."""
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            losses.asked.append((self.command, self.path))
            fate = len(losses.asked) % 11
            if fate == 2:
                losses.requests += 1
                self.close_connection = True
                return
            upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            upstream.request(self.command, self.path, data, dict(self.headers))
            response = upstream.getresponse()
            answer = response.read()
            upstream.close()
            self.send_response_only(response.status)
            for name, value in response.headers.items():
                if name.lower() not in {"connection", "transfer-encoding", "content-length"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            if fate in {4, 5}:
                losses.answers += 1
                self.close_connection = True
                answer = answer[: len(answer) // 2 if fate == 4 else 0]
            self.wfile.write(answer)

        do_GET = do_POST = pass_on  # noqa: N815 - the names that http.server calls

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    losses = Losses(f"http://127.0.0.1:{server.server_port}")
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield losses
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
