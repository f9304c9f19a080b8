//! Converts a member's events, health and metrics to Python objects.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use monedula_client::group::{GroupEvent, GroupFigures, GroupHealth, Latency, MemberState, Reserved};
use monedula_engine::assign::Protocol;
use monedula_engine::{Now, TopicPartition};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::consumer::values::{PyPartition, py_partition};
use crate::seconds::unix_seconds;

/// An event: seconds since the epoch, name of a class of `monedula.events`, its attributes.
pub(crate) type PyEvent<'py> = (f64, &'static str, Bound<'py, PyDict>);

pub(crate) fn py_event<'py>(py: Python<'py>, at: SystemTime, event: GroupEvent) -> PyResult<PyEvent<'py>> {
    let time = unix_seconds(at);
    let (kind, fields) = parts(py, event)?;
    let attributes = PyDict::new(py);
    for (name, value) in fields {
        attributes.set_item(name, value)?;
    }
    Ok((time, kind, attributes))
}

type Field = (&'static str, Py<PyAny>);

/// The name of the event's class, and its attributes.
fn parts(py: Python<'_>, event: GroupEvent) -> PyResult<(&'static str, Vec<Field>)> {
    macro_rules! fields {
        ($($name:ident: $value:expr),*) => { vec![$((stringify!($name), $value.into_py_any(py)?)),*] };
    }
    Ok(match event {
        GroupEvent::FellBack { reason } => ("FellBack", fields![reason: reason]),
        GroupEvent::StateChanged { from, to } => ("StateChanged", fields![before: from.name(), after: to.name()]),
        GroupEvent::CoordinatorFound { node_id } => ("CoordinatorFound", fields![node_id: node_id]),
        GroupEvent::CoordinatorLost { reason } => ("CoordinatorLost", fields![reason: reason]),
        GroupEvent::RebalanceStarted { reason } => ("RebalanceStarted", fields![reason: reason]),
        GroupEvent::Joined { generation, leader, protocol, took } => {
            ("Joined", fields![generation: generation, leader: leader, assignor: protocol, seconds: took.as_secs_f64()])
        }
        GroupEvent::Synced { generation, took, rebalance, owned, assigned, revoked } => (
            "Synced",
            fields![
                generation: generation, seconds: took.as_secs_f64(), rebalance: rebalance.as_secs_f64(),
                owned: owned, gained: assigned, revoked: revoked
            ],
        ),
        GroupEvent::Heartbeat { took } => ("Heartbeat", fields![seconds: took.as_secs_f64()]),
        GroupEvent::Commit { took, partitions, failed } => {
            ("Commit", fields![seconds: took.as_secs_f64(), partitions: partitions, failed: failed])
        }
        GroupEvent::Retried { api, reason } => ("Retried", fields![api: api, reason: reason]),
        GroupEvent::RebalanceWanted { partitions } => ("RebalanceWanted", fields![partitions: pairs(partitions)]),
        GroupEvent::Lost { partitions, reason } => ("Lost", fields![partitions: pairs(partitions), reason: reason]),
        GroupEvent::Reserved { partitions, members, names, left } => (
            "Reserved",
            fields![
                partitions: pairs(partitions), members: members, names: texts(&names), seconds: left.as_secs_f64()
            ],
        ),
        GroupEvent::Released { partitions } => ("Released", fields![partitions: pairs(partitions)]),
        GroupEvent::LeaseExpired => ("LeaseExpired", Vec::new()),
        GroupEvent::LeaseRenewed => ("LeaseRenewed", Vec::new()),
        GroupEvent::UnknownTopic { topic, nearest } => {
            ("UnknownTopic", fields![topic: &*topic, nearest: nearest.as_deref()])
        }
        GroupEvent::TopicFound { topic } => ("TopicFound", fields![topic: &*topic]),
        GroupEvent::Left { reason } => ("Left", fields![reason: reason]),
    })
}

pub(crate) fn py_health(py: Python<'_>, health: GroupHealth) -> PyResult<Bound<'_, PyDict>> {
    let status = &health.status;
    let ago = |at: Option<Now>| at.map(|at| health.since(at).as_secs_f64());
    let left = |at: Option<Now>| at.map(|at| health.until(at).as_secs_f64());
    let dict = PyDict::new(py);
    dict.set_item("group_id", &health.group_id)?;
    dict.set_item("state", status.state.name())?;
    let protocol = match status.state {
        MemberState::Classic(_) => "classic",
        MemberState::Consumer(_) => "consumer",
    };
    dict.set_item("protocol", protocol)?;
    dict.set_item("coordinator", status.coordinator)?;
    dict.set_item("member_id", &status.member_id)?;
    dict.set_item("instance_id", &health.instance_id)?;
    dict.set_item("generation", status.generation)?;
    dict.set_item("leader", status.leader)?;
    dict.set_item("assignor", &status.assignor)?;
    dict.set_item("cooperative", status.protocol == Protocol::Cooperative)?;
    dict.set_item("topics", texts(&status.topics()))?;
    dict.set_item("unknown_topics", texts(&health.unknown_topics))?;
    dict.set_item("unmatched_for", health.unmatched.map(|time| time.as_secs_f64()))?;
    dict.set_item("owned", pairs(status.owned.clone()))?;
    dict.set_item("rebalance_wanted", pairs(health.wanted.clone()))?;
    dict.set_item("heartbeat_interval", status.heartbeat_interval.as_secs_f64())?;
    dict.set_item("last_heartbeat_ago", ago(status.last_heartbeat))?;
    dict.set_item("lease_left", left(status.lease_until))?;
    dict.set_item("last_rebalance_ago", ago(status.last_rebalance))?;
    dict.set_item("last_rebalance_reason", &status.last_rebalance_reason)?;
    dict.set_item("fatal_error", status.fatal.as_ref().map(ToString::to_string))?;
    dict.set_item("last_retried_error_ago", health.last_error.as_ref().map(|(ago, _)| ago.as_secs_f64()))?;
    dict.set_item("last_retried_error", health.last_error.as_ref().map(|(_, error)| error))?;
    dict.set_item("pending_commits", status.pending_commits)?;
    dict.set_item("deferred_left", left(status.deferred_until))?;
    let reserved = status.reserved.iter().map(|reserved| py_reserved(py, reserved, health.until(reserved.until)));
    dict.set_item("reserved", reserved.collect::<PyResult<Vec<_>>>()?)?;
    Ok(dict)
}

fn py_reserved<'py>(py: Python<'py>, reserved: &Reserved, left: Duration) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("partitions", pairs(reserved.partitions.clone()))?;
    dict.set_item("members", reserved.members)?;
    dict.set_item("names", texts(&reserved.names))?;
    dict.set_item("left", left.as_secs_f64())?;
    Ok(dict)
}

fn texts(names: &BTreeSet<Arc<str>>) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// The member's metrics by name, for `metrics()`; empty without figures.
pub(crate) fn py_figures<'py>(py: Python<'py>, figures: Option<&GroupFigures>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let Some(figures) = figures else { return Ok(dict) };
    let latencies = [
        ("rebalance", figures.rebalances),
        ("join", figures.joins),
        ("sync", figures.syncs),
        ("heartbeat", figures.heartbeats),
        ("commit", figures.commits),
    ];
    for (name, Latency { count, last, max, total }) in latencies {
        dict.set_item(format!("group_{name}_count"), count)?;
        for (what, took) in [("last", last), ("max", max), ("total", total)] {
            dict.set_item(format!("group_{name}_seconds_{what}"), took.as_secs_f64())?;
        }
    }
    let counts = [
        ("commit_failed_partitions", figures.commits_failed),
        ("partitions_gained", figures.assigned),
        ("partitions_revoked", figures.revoked),
        ("partitions_lost", figures.lost),
        ("lease_expiries", figures.lease_expiries),
        ("records_stalled", figures.records_stalled),
        ("coordinators_lost", figures.coordinators_lost),
        ("retried_errors", figures.retried),
        ("callbacks", figures.callbacks),
        ("events_lost", figures.events_lost),
        ("losses_waited_for", figures.losses_waited_for),
        ("partitions_reserved", figures.reserved as u64),
    ];
    for (name, count) in counts {
        dict.set_item(format!("group_{name}"), count)?;
    }
    dict.set_item("group_reserved_seconds_left", figures.reserved_left.as_secs_f64())?;
    Ok(dict)
}

fn pairs(partitions: impl IntoIterator<Item = TopicPartition>) -> Vec<PyPartition> {
    partitions.into_iter().map(py_partition).collect()
}
