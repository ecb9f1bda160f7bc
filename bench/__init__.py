"""Measurements: how fast the service is, and what it keeps when it is killed."""
