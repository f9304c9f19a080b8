"""Reads without a group: `read` and `read_range`, and topics as tables, `scan` and `dataset`."""
