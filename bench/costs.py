"""Where the processor time of a request goes: samples of the stack, taken as the time passes.

The application is called in this process, without a server, so that nothing but it is seen. The
kernel's profiling timer interrupts it every few ms of processor time spent; unlike a tracing
profiler this costs next to nothing, and so does not make many small calls look dear.
"""

import io
import signal
import sysconfig
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

from flask import Flask

_EVERY: Final = 0.001
_SITE: Final = sysconfig.get_paths()["purelib"]
_OWN: Final = str(Path(__file__).parents[1] / "service")
_PARTS: Final = {
    "engine": "engine: rules, log, digest",
    "games.py": "use case: games",
    "access.py": "use case: access",
    "view.py": "view",
    "store": "store",
    "api": "api",
}
_PACKAGES: Final = {
    "flask": "Flask",
    "werkzeug": "Werkzeug",
    "marshmallow": "marshmallow",
    "flask_smorest": "flask-smorest, webargs",
    "webargs": "flask-smorest, webargs",
    "sqlalchemy": "SQLAlchemy",
    "psycopg": "psycopg",
}


@dataclass(slots=True)
class Profile:
    """Where the time went.

    Attributes:
        requests: Requests made.
        cost: Processor time of one, in µs.
        samples: Stacks seen.
        parts: Samples by the package that ran; the standard library counts for its caller.
        functions: Samples in which a function of the service, or what it called, ran.
    """

    requests: int = 0
    cost: float = 0.0
    samples: int = 0
    parts: Counter[str] = field(default_factory=Counter)
    functions: Counter[str] = field(default_factory=Counter)


def profile(app: Flask, requests: Iterable[dict[str, Any]], seconds: float) -> Profile:
    """Return where an application's time goes on these requests.

    Args:
        app: The application.
        requests: WSGI environments, each used once.
        seconds: Processor time to spend.

    Raises:
        RuntimeError: An answer is not 200.
    """
    found = Profile()

    def expect_200(status: str, *_: Any) -> Callable[[bytes], object]:
        if not status.startswith("200"):
            raise RuntimeError(f"the answer is {status}")
        return lambda _: None

    start = time.process_time()
    with _sampling(found):
        for environment in requests:
            b"".join(app(environment, expect_200))
            found.requests += 1
            if time.process_time() - start > seconds:
                break
    found.cost = (time.process_time() - start) / max(1, found.requests) * 1e6
    return found


@contextmanager
def _sampling(found: Profile) -> Iterator[None]:
    def sample(_: int, frame: FrameType | None) -> None:
        found.samples += 1
        part = ""
        seen = set()
        while frame is not None and frame.f_code is not profile.__code__:
            code = frame.f_code
            part = part or _part(code.co_filename)
            seen.add(_name(code.co_filename, code.co_qualname))
            frame = frame.f_back
        found.parts[part or "other"] += 1
        found.functions.update(seen - {""})

    before = signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, _EVERY, _EVERY)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _part(file: str) -> str:
    """Return the name of what a file belongs to, or nothing for the standard library."""
    if file.startswith(_OWN):
        return _PARTS.get(file[len(_OWN) + 1 :].split("/", 1)[0], "service, other")
    if file.startswith(_SITE):
        package = file[len(_SITE) + 1 :].split("/", 1)[0].removesuffix(".py")
        return _PACKAGES.get(package, package)
    return ""


def _name(file: str, function: str) -> str:
    """Return the name of a function of the service, or nothing for another."""
    if "<" in function or not file.startswith(_OWN):
        return ""
    module = file[len(_OWN) + 1 :].removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f"{module}.{function}"


def environment(method: str, path: str, token: str, body: bytes | None = None) -> dict[str, Any]:
    """Return the WSGI environment of a request, as gunicorn makes it."""
    made = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": "",
        "RAW_URI": path,
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8000",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": "127.0.0.1",
        "HTTP_AUTHORIZATION": f"Bearer {token}",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body or b""),
        "wsgi.errors": io.StringIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        "wsgi.input_terminated": True,
    }
    if body is not None:
        made |= {"CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(body))}
    return made
