"""The schema registry of the embedded broker."""
