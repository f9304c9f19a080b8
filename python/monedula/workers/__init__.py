"""`Consumer.run` and `AsyncConsumer.run`: a handler is called for each record, concurrently, but in order for each key.

`lanes` decides which records may be started, `parts` which offsets may be committed; `threads` and `tasks` call the
handler; `failures` decides about records whose handler raised, and `dead_letters` writes those that are given up.
"""

from monedula.workers.failures import Retry

__all__ = ["Retry"]
