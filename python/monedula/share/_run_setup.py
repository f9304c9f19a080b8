"""`under_way`: checks the plan of a share consumer's run, and prepares what it needs."""

from collections.abc import Generator
from contextlib import contextmanager

from monedula.errors import ArgumentError
from monedula.share._base import ShareConsumerBase
from monedula.workers.outputs import Outputs, outputs_of
from monedula.workers.plans import Plan
from monedula.workers.runs import Run


@contextmanager
def under_way(
    consumer: ShareConsumerBase, plan: Plan, *, awaits: bool, holder: int | None = None
) -> Generator[tuple[Run, Outputs | None], None, None]:
    """The run of a plan, and where its dead letters and replies go. A consumer has one run at a time.

    As by asking for the next batch, what the caller holds is accepted: `holder`, or this thread.
    """
    last = consumer._last_run
    if last is not None and last.is_under_way:
        raise ArgumentError("run() is under way already: a consumer has one run at a time")
    plan = plan.check(consumer.schema.names, awaits)
    if plan.dead_letter is not None and consumer._decodes:
        reason = "dead letters have the bytes of records, and this consumer decodes them"
        raise ArgumentError(f"{reason}: have on_error= return 'reject', for the dead letters of the group")
    if not consumer._topics:
        raise ArgumentError("run() is for members of a group: subscribe() to topics first")
    plan.check_outputs(consumer._is_subscribed_to)
    consumer._core.enter(holder)
    run = Run(consumer._core, plan, None, None if last is None else last.all_figures())
    outputs = outputs_of(plan, consumer._settings, consumer._names.group or "", consumer._open_producer)
    consumer._last_run = run
    try:
        yield run, outputs
    finally:
        run.is_under_way = False
