"""Tournaments: sealed deals that all play alike, and standings that can be judged again."""
