"""The game service for Royal Rendezvous and its family."""
