"""The names of what the collector of `monedula.prometheus` returns."""

from monedula.prometheus.families import FAMILIES, LOG_END_OFFSET, OTHER_HELP, POSITION, RETRIED_ERRORS


def metric_names(detail: str = "partition") -> set[str]:
    """The names of all samples that the collector can return."""
    single = {family.name + ("_total" if family.kind == "counter" else "") for family in FAMILIES}
    others = set(OTHER_HELP) - ({POSITION, LOG_END_OFFSET} if detail != "partition" else set())
    return single | (others - {RETRIED_ERRORS}) | {f"{RETRIED_ERRORS}_total"}
