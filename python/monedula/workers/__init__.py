"""`run` of consumers: a handler is called for each record, concurrently, but in order for each key.

A share group's has no order.

The core decides which records may be started, and which offsets may be committed (`Lanes`); `threads` and `tasks` call
the handler; `failures` decides about records whose handler raised; `outputs` writes replies, and dead letters for those
that are given up; `transactions` decides what is committed together with them.
"""

from monedula.workers.failures import Retry
from monedula.workers.replies import Reply

__all__ = ["Reply", "Retry"]
