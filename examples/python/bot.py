"""A bot: plays a game by its legal moves, and verifies what was recorded. Python alone is needed.

    RENDEZVOUS_URL=http://127.0.0.1:8000 RENDEZVOUS_TOKEN=... python bot.py

Without a token it registers a player first, whose token it does not show. With one it goes on with
the game that it was at when it was stopped. Every request of a game may be sent again until it is
answered: a creation has its key, an act its ply. To register again makes another player, no harm.
"""

import hashlib
import http.client
import json
import os
import sys
import time
import uuid
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]
PATIENCE = 60.0
"""Seconds for which a request is sent again before the bot gives up."""
BUSY = {429, 503}
RANKS = "A23456789TJQK"


class RefusedError(Exception):
    """The service refuses a request; `problem` is its problem document (RFC 9457)."""

    def __init__(self, problem: Json) -> None:
        super().__init__(f"{problem['code']}: {problem['detail']}")
        self.problem = problem


class Service:
    """The service, asked until it answers."""

    def __init__(self, url: str, token: str | None) -> None:
        self.token = token
        at = urlsplit(url)
        kind = http.client.HTTPSConnection if at.scheme == "https" else http.client.HTTPConnection
        # It connects by itself, and again after it was closed.
        self.connection = kind(at.netloc, timeout=10)

    def ask(self, method: str, path: str, body: Json | None = None, key: str = "") -> Json:
        """Return the answer to a request, which is sent again while no answer comes.

        Raises:
            RefusedError: The answer is a problem that asking again would not solve.
            OSError: There was none for a minute.
        """
        headers = {"Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        if key:
            headers["Idempotency-Key"] = key
        data = None if body is None else json.dumps(body).encode()
        until, pause = time.monotonic() + PATIENCE, 0.05
        while True:
            try:
                status, wait, answer = self._once(method, path, data, headers)
                if status < 400:
                    return answer
                if status not in BUSY:
                    raise RefusedError(answer)
            except (OSError, http.client.HTTPException, ValueError) as lost:
                # Nobody knows whether it was done. Sent again it does no harm: see above.
                self.connection.close()
                wait, answer = 0.0, {"code": "lost", "detail": repr(lost)}
            pause = min(2 * pause, 5.0)
            if time.monotonic() + max(wait, pause) > until:
                raise TimeoutError(f"{method} {path}: {answer['code']}: {answer['detail']}")
            time.sleep(max(wait, pause))

    def _once(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str]
    ) -> tuple[int, float, Json]:
        self.connection.request(method, path, data, headers)
        response = self.connection.getresponse()
        answer: Json = json.loads(response.read())
        return response.status, float(response.headers.get("Retry-After", 0)), answer


def find_game(service: Service) -> Json:
    """Return the game in play if there is one, else a new one."""
    for game in service.ask("GET", "/v1/games?status=playing&limit=1")["games"]:
        print("going on with", game["id"], "at ply", game["ply"], flush=True)
        return service.ask("GET", game["links"]["self"])
    game = service.ask("POST", "/v1/games", {}, key=str(uuid.uuid4()))
    print("playing", game["id"], flush=True)
    return game


def choose(moves: list[Json]) -> Json:
    """Return the move to make: the lowest card that can be built, a card from the stock at last."""
    return min(moves, key=lambda move: RANKS.index(move["card"][0]) if "card" in move else 99)


def play(service: Service, game: Json) -> Json:
    """Return a game at its end."""
    while game["status"] == "playing":
        act = {"ply": game["ply"], "moves": [choose(game["legal_moves"])]}
        try:
            game = service.ask("POST", game["links"]["moves"], act)
        except RefusedError as error:
            # Somebody else has played with this token: go on from where the game is.
            if error.problem["code"] != "stale-ply":
                raise
            game = error.problem["game"]
        print("ply", game["ply"], "score", game["score"], flush=True)
    return game


def digest(replay: Json) -> str:
    """Return what a replay's digest must be: docs/replay-1.md tells how it is made."""
    header = json.dumps(replay["header"], sort_keys=True, separators=(",", ":"))
    entries = [f"{text}@{ms}" for text, ms in zip(replay["log"], replay["times"], strict=True)]
    text = "royal-rendezvous/log/1\0" + "\n".join([header, *entries])
    return hashlib.sha256(text.encode()).hexdigest()


def main() -> int:
    """Play one game, and return 0 if what was recorded of it is sound."""
    service = Service(os.environ["RENDEZVOUS_URL"], os.environ.get("RENDEZVOUS_TOKEN"))
    if not service.token:
        service.token = service.ask("POST", "/v1/players", {"name": "Bot"})["token"]
    game = play(service, find_game(service))
    replay = service.ask("GET", game["links"]["replay"])
    verdict = service.ask("POST", "/v1/replays/verify", replay)["verdict"]
    print(game["id"], game["status"], "score", game["score"], verdict, flush=True)
    sound = verdict == "valid" and game["digest"] == replay["digest"] == digest(replay)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
