//! Settings of consumers of share groups (KIP-932).

use super::{DAY_MS, Key, SettingKind, int, key};

/// Settings of the group, which its members share: not of a client.
pub(crate) const GROUP_SETTINGS: [&str; 11] = [
    "errors.deadletterqueue.copy.record.enable",
    "errors.deadletterqueue.topic.name",
    "share.assignment.interval.ms",
    "share.auto.offset.reset",
    "share.delivery.count.limit",
    "share.heartbeat.interval.ms",
    "share.isolation.level",
    "share.partition.max.record.locks",
    "share.record.lock.duration.ms",
    "share.renew.acknowledge.enable",
    "share.session.timeout.ms",
];

pub(super) const KEYS: &[Key] = &[
    key(
        "share.acknowledgement.mode",
        SettingKind::Choice(&["implicit", "explicit"]),
        "implicit",
        "implicit: rows of which nothing was decided are accepted when the next batch is asked for; explicit: they stay locked \
         until something is, so that several batches may be in hand",
    ),
    key(
        "share.acquire.mode",
        SettingKind::Choice(&["batch_optimized", "record_limit"]),
        "batch_optimized",
        "batch_optimized: brokers give whole record batches, which may be more than max.poll.records; record_limit: never more, \
         from one broker at a time (Kafka 4.2)",
    ),
    key(
        "max.poll.records",
        int(1, i32::MAX as i64),
        "500",
        "the most records that a broker gives a share consumer at a time; it locks them from then on. Left out, a program that \
         is through with its batches soon is given as many as it takes in 100 ms. How many rows a batch has is max_rows",
    ),
    key(
        "share.renew.max.ms",
        int(0, DAY_MS),
        "300000",
        "for how long a share consumer renews the locks of rows in hand by itself, from when they were handed out on, in run() \
         and records() from when the last record of their batch began, ms; 0: not at all (Kafka 4.2)",
    ),
];
