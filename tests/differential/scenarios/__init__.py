"""The scenarios, by room."""

from tests.differential.scenarios import (
    admin,
    classic,
    committed,
    configs,
    consumer,
    fetch,
    groups,
    log_dirs,
    log_offsets,
    metadata,
    migration,
    nodes,
    produce,
    reassignments,
    transactions,
    versions,
)

ALL = (
    admin,
    classic,
    committed,
    configs,
    consumer,
    fetch,
    groups,
    log_dirs,
    log_offsets,
    metadata,
    migration,
    nodes,
    produce,
    reassignments,
    transactions,
    versions,
)
