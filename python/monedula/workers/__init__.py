"""`Consumer.run` and `AsyncConsumer.run`: a handler is called for each record, concurrently, but in order for each key.

`lanes` decides which records may be started, `parts` which offsets may be committed; `threads` and `tasks` call the
handler; `failures` decides about records whose handler raised; `outputs` writes replies, and `dead_letters`
those that are given up; `transactions` decides what is committed together with them.
"""

from monedula.workers.failures import Retry
from monedula.workers.replies import Reply

__all__ = ["Reply", "Retry"]
