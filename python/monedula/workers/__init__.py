"""`Consumer.run` and `AsyncConsumer.run`: a handler is called for each record, many side by side, in order by key.

`lanes` decides what may be begun, `parts` what may be committed; `threads` and `tasks` call the handler; `failures`
decides about records whose handler raised, and `dead_letters` writes those that are given up.
"""

from monedula.workers.failures import Retry

__all__ = ["Retry"]
