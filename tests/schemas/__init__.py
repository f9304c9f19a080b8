"""Schemas of typed columns."""
