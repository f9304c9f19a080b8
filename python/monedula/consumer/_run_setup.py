"""`under_way`: checks the plan of a run, and prepares what it needs."""

from collections.abc import Generator
from contextlib import contextmanager

from monedula.consumer._base import ConsumerBase
from monedula.consumer._read_until import UntilLoop
from monedula.errors import ArgumentError
from monedula.workers.outputs import Outputs, outputs_of
from monedula.workers.plans import Plan, group_of
from monedula.workers.runs import Run


@contextmanager
def under_way(consumer: ConsumerBase, plan: Plan) -> Generator[tuple[Run, Outputs | None], None, None]:
    """The run of a plan, and where its dead letters and replies go. A consumer has one run at a time."""
    last = consumer._last_run
    if last is not None and last.is_under_way:
        raise ArgumentError("run() is under way already: a consumer has one run at a time")
    plan = plan.check(consumer.schema.names, consumer._awaits)
    if plan.dead_letter is not None and consumer._refused.decodes:
        message = "dead letters have the bytes of records, and this consumer decodes them: give value= a dead_letter"
        raise ArgumentError(f"{message} for records that cannot be decoded, and on_error= for those that are handled")
    named = consumer._named
    group = group_of(consumer._settings, is_subscribed=named is None or bool(named), commits=plan.transaction is None)
    plan.check_outputs(consumer._is_subscribed_to)
    bound = None if plan.until is None else UntilLoop(consumer._core, consumer._refused, plan.until)
    transacts = None if plan.transaction is None else consumer
    run = Run(consumer._member, plan, bound, None if last is None else last.all_figures(), transacts)
    outputs = outputs_of(plan, consumer._settings, group, consumer._open_producer)
    consumer._last_run = run
    try:
        yield run, outputs
    finally:
        run.is_under_way = False
