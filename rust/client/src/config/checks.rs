//! Settings that contradict each other, which are errors, and doubtful ones, of which the client warns (req S107).

use monedula_engine::group::classic::TimingProblem;

use super::{ClientConfig, ConfigError, GroupProtocol};
use crate::config_values::ConfigValues;

/// Bytes that a response needs beside its records, at least (the same allowance as librdkafka's).
const AROUND_RECORDS_BYTES: usize = 512;

/// From this `fetch.min.bytes` on, the client warns.
const HUGE_MIN_BYTES: i32 = 1 << 20;

/// Settings of the classic protocol only, each with its replacement under KIP-848.
const CLASSIC_ONLY: [(&str, &str); 2] = [
    ("partition.assignment.strategy", "the broker assigns; group.remote.assignor names one of its assignors"),
    ("heartbeat.interval.ms", "the broker says how often (group.consumer.heartbeat.interval.ms)"),
];

/// Settings of KIP-848 only, each with its replacement under the classic protocol.
const CONSUMER_ONLY: [(&str, &str); 1] = [(
    "group.remote.assignor",
    "a member assigns, by partition.assignment.strategy; set group.protocol=consumer to have a broker do it",
)];

/// Settings of consumer groups that a share group has elsewhere, or not at all. Java refuses them too.
const NOT_OF_SHARE_GROUPS: [(&str, &str); 14] = [
    ("auto.offset.reset", "where the group starts is its own setting, share.auto.offset.reset: alter_configs()"),
    ("isolation.level", "it is a setting of the group, share.isolation.level: alter_configs()"),
    ("enable.auto.commit", "rows are acknowledged one by one; see share.acknowledgement.mode"),
    ("auto.commit.interval.ms", "rows are acknowledged one by one; see share.acknowledgement.mode"),
    ("auto.commit.records", "rows are acknowledged one by one; see share.acknowledgement.mode"),
    ("group.instance.id", "share groups have no static members"),
    ("group.protocol", "share groups have one protocol"),
    ("group.remote.assignor", "the broker assigns (group.share.assignors)"),
    ("partition.assignment.strategy", "the broker assigns (group.share.assignors)"),
    ("session.timeout.ms", "it is a setting of the group, share.session.timeout.ms: alter_configs()"),
    ("heartbeat.interval.ms", "it is a setting of the group, share.heartbeat.interval.ms: alter_configs()"),
    ("max.poll.interval.ms", "a slow user loses no partition; see share.renew.max.ms"),
    ("max.partition.fetch.bytes", "a share fetch has no such bound; see fetch.max.bytes and max.poll.records"),
    ("exclude.internal.topics", "share groups subscribe to no patterns"),
];

pub(super) fn refuse_of_consumer_groups(values: &ConfigValues) -> Result<(), ConfigError> {
    if let Some((key, why)) = NOT_OF_SHARE_GROUPS.iter().find(|(key, _)| values.is_given(key)) {
        let name = values.name_of(key);
        return Err(ConfigError {
            key: name.into(),
            message: format!("{name} is no setting of a share consumer: {why}"),
        });
    }
    if values.given("group.id").is_none() {
        let message = "group.id is missing: a share consumer reads as a member of a share group";
        return Err(ConfigError { key: "group.id".into(), message: message.into() });
    }
    Ok(())
}

impl ClientConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let contradictions = [
            (
                "request.timeout.ms",
                self.request_timeout <= self.fetch_max_wait,
                format!(
                    "request.timeout.ms ({} ms) must exceed fetch.max.wait.ms ({} ms), or every idle fetch times out",
                    self.request_timeout.as_millis(),
                    self.fetch_max_wait.as_millis()
                ),
            ),
            (
                "receive.message.max.bytes",
                self.receive_message_max_bytes < self.fetch_max_bytes + AROUND_RECORDS_BYTES,
                format!(
                    "receive.message.max.bytes ({}) must exceed fetch.max.bytes ({}) by {AROUND_RECORDS_BYTES} at least, or \
                     answers that fetches ask for are refused: raise the one or lower the other",
                    self.receive_message_max_bytes, self.fetch_max_bytes
                ),
            ),
            (
                "queued.max.bytes",
                self.queued_max_bytes < 2 * self.fetch_min_bytes.unsigned_abs() as usize,
                format!(
                    "queued.max.bytes ({}) must be at least twice fetch.min.bytes ({}), or no fetch can be sent",
                    self.queued_max_bytes, self.fetch_min_bytes
                ),
            ),
        ];
        let timing = self.timing_problems().into_iter();
        let timing = timing.map(|problem| (problem.key, problem.fatal, problem.message));
        match contradictions.into_iter().chain(timing).find(|(_, wrong, _)| *wrong) {
            Some((key, _, message)) => Err(ConfigError { key: key.into(), message }),
            None => Ok(()),
        }
    }

    /// Warns of settings that work but are probably a mistake (req S107). The membership warns
    /// about the timing of a group.
    pub(super) fn warn(&mut self) {
        if self.fetch_max_wait.is_zero() {
            let message = "fetch.max.wait.ms=0: brokers answer a fetch at once even where there is nothing, and are asked \
                           again and again; some 100 ms cost no latency while records come";
            self.warnings.push(message.into());
        }
        if self.fetch_min_bytes >= HUGE_MIN_BYTES || self.fetch_min_bytes as usize > self.fetch_max_bytes {
            self.warnings.push(format!(
                "fetch.min.bytes={} (fetch.max.bytes is {}): on all but the busiest topics every fetch waits for \
                 fetch.max.wait.ms ({} ms)",
                self.fetch_min_bytes,
                self.fetch_max_bytes,
                self.fetch_max_wait.as_millis()
            ));
        }
    }

    /// Warns of settings without effect under the group's protocol. They are no errors, since
    /// people share settings among clients.
    pub(super) fn warn_of_other_protocol(&mut self, values: &ConfigValues) {
        let (protocol, settings) = match self.group_protocol {
            GroupProtocol::Consumer => ("consumer", &CLASSIC_ONLY[..]),
            GroupProtocol::Classic => ("classic", &CONSUMER_ONLY[..]),
            GroupProtocol::Auto => return,
        };
        for (key, instead) in settings.iter().filter(|(key, _)| values.is_given(key)) {
            self.warnings.push(format!("{key} means nothing under group.protocol={protocol}: {instead}"));
        }
    }

    /// Timing settings with which a membership cannot work, or hardly (req S107).
    pub(crate) fn timing_problems(&self) -> Vec<TimingProblem> {
        let mut problems = self.membership(Vec::new()).timing_problems();
        // Under KIP-848 the broker sets the heartbeat interval, and its session bounds do not apply
        // to `session.timeout.ms`.
        if self.group_protocol == GroupProtocol::Consumer {
            problems.retain(|problem| problem.key == "max.poll.interval.ms");
        }
        problems
    }
}
