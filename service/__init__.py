"""The game service for Royal Rendezvous and its family."""

__version__ = "1.1.0"
