"""A game by the client that openapi-python-client generates from the contract.

openapi-python-client generate --path ../../openapi.yaml --meta none
    --output-path rendezvous_client --config openapi-python-client.yaml
RENDEZVOUS_URL=http://127.0.0.1:8000 python generated.py
"""

import os
import sys
from typing import TypeVar
from uuid import uuid4

from rendezvous_client import AuthenticatedClient, Client
from rendezvous_client.api.games import create_game, make_moves
from rendezvous_client.api.players import create_player
from rendezvous_client.api.replays import get_replay, verify_replay
from rendezvous_client.models import (
    Batch,
    Game,
    NewGame,
    NewPlayer,
    NewPlayerToken,
    Problem,
    Replay,
    Verification,
)

T = TypeVar("T")


def expect(kind: type[T], answer: object) -> T:
    """Return an answer, which must be of this kind."""
    if isinstance(answer, Problem):
        sys.exit(f"{answer.code}: {answer.detail}")
    if not isinstance(answer, kind):
        sys.exit(f"a {kind.__name__} was expected, not {answer!r}")
    return answer


def main() -> None:
    """Register, play by the first legal move to the end, and verify the replay."""
    url = os.environ["RENDEZVOUS_URL"]
    with Client(url) as anybody:
        made = create_player.sync(client=anybody, body=NewPlayer(name="Bot"))
        token = expect(NewPlayerToken, made).token
    with AuthenticatedClient(url, token) as client:
        key = str(uuid4())
        game = expect(Game, create_game.sync(client=client, body=NewGame(), idempotency_key=key))
        while game.status == "playing":
            batch = Batch(ply=game.ply, moves=game.legal_moves[:1])
            game = expect(Game, make_moves.sync(game.id, client=client, body=batch))
        replay = expect(Replay, get_replay.sync(game.id, client=client))
        found = expect(Verification, verify_replay.sync(client=client, body=replay))
    print(game.id, game.status, "score", game.score, found.verdict)
    if found.verdict != "valid" or replay.digest != game.digest:
        sys.exit(1)


if __name__ == "__main__":
    main()
