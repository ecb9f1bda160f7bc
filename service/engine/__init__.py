"""The rules: deals, positions, moves, logs, replay documents and their verification.

Pure: the standard library alone, no input or output, no clock. What everybody needs stands here::

    from service.engine import Game, deal, table

    game = Game(table("royal-rendezvous-1"), deal("deal-1", "royal-rendezvous-1", "7"),
                undo_allowed=True)
    game.enter(game.legal_moves()[0])
"""

from service.engine.deals import DEAL_SPECS, Layout, canonical_seed, deal
from service.engine.game import Game
from service.engine.moves import Move, Table, table
from service.engine.position import Position
from service.engine.prose import describe
from service.engine.replay import digest, document
from service.engine.rulesets import DEFAULT_RULESET, RULESETS, Family, Ruleset
from service.engine.verify import Verdict, verify, verify_text

__all__ = [
    "DEAL_SPECS",
    "DEFAULT_RULESET",
    "RULESETS",
    "Family",
    "Game",
    "Layout",
    "Move",
    "Position",
    "Ruleset",
    "Table",
    "Verdict",
    "canonical_seed",
    "deal",
    "describe",
    "digest",
    "document",
    "table",
    "verify",
    "verify_text",
]
