"""Event loops: how they wait for the core. Imported by asynchronous clients alone, since asyncio is slow to import."""
