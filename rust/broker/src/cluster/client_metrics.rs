//! The metrics that clients push (KIP-714): which are asked for, of whom, and what was pushed.
//!
//! As in Kafka's `ClientMetricsManager`: a subscription is a resource of the type client metrics with the configs
//! `metrics`, `interval.ms` and `match`; a client gets all metrics of the subscriptions that match it, in the shortest
//! of their intervals. What clients push is kept for tests, the newest [`PUSHES_KEPT`] of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;
use regex::Regex;

use super::config_def::{ConfigDef, Rule};
use super::{ConfigValues, NodeId};
use crate::settings::ConfigType;

const PUSHES_KEPT: usize = 10_000;

/// The interval of a client that no subscription matches, in milliseconds: as in Kafka.
const DEFAULT_INTERVAL_MS: i32 = 300_000;

/// The configs of a subscription.
pub(crate) const CLIENT_METRICS_CONFIGS: &[ConfigDef] = &[
    client_metrics_config(
        "interval.ms",
        ConfigType::Int,
        Rule::Between(100, 3_600_000),
        "300000",
        "Time between two pushes of a client, in milliseconds.",
    ),
    client_metrics_config(
        "match",
        ConfigType::List,
        Rule::Any,
        "",
        "Which clients: `selector=regular expression`, separated by commas; all have to match.",
    ),
    client_metrics_config(
        "metrics",
        ConfigType::List,
        Rule::Any,
        "",
        "Prefixes of the names of metrics, separated by commas; `*` for all metrics.",
    ),
];

const fn client_metrics_config(
    name: &'static str,
    kind: ConfigType,
    rule: Rule,
    default: &'static str,
    documentation: &'static str,
) -> ConfigDef {
    ConfigDef { name, kind, rule, default, server: None, effect: true, documentation }
}

/// The selectors of `match` that this broker evaluates.
const SELECTORS: [&str; 3] = ["client_id", "client_instance_id", "client_source_address"];

/// Selectors of Kafka that match every client here: the broker does not keep what they select by.
const OTHER_SELECTORS: [&str; 3] = ["client_software_name", "client_software_version", "client_source_port"];

/// Checks the value of `match`.
///
/// # Errors
/// Kafka's message.
pub(crate) fn check_match(value: &str) -> Result<(), String> {
    parsed(value).map(|_| ())
}

fn parsed(value: &str) -> Result<Vec<(String, Regex)>, String> {
    let patterns = value.split(',').map(str::trim).filter(|pattern| !pattern.is_empty());
    patterns
        .map(|pattern| {
            let illegal = || format!("Illegal client matching pattern: {pattern}");
            let (selector, expression) = pattern.split_once('=').ok_or_else(illegal)?;
            let selector = selector.trim();
            if !SELECTORS.contains(&selector) && !OTHER_SELECTORS.contains(&selector) {
                return Err(illegal());
            }
            let expression = Regex::new(&format!("^(?:{})$", expression.trim())).map_err(|_| illegal())?;
            Ok((selector.to_owned(), expression))
        })
        .collect()
}

/// The attributes of a client by which `match` selects.
#[derive(Copy, Clone, Debug)]
pub(crate) struct MetricsClient<'a> {
    pub(crate) id: Uuid,
    pub(crate) client_id: &'a str,
    pub(crate) host: &'a str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MetricsSubscription {
    pub(crate) subscription_id: i32,
    pub(crate) interval_ms: i32,
    pub(crate) metrics: BTreeSet<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Push {
    pub(crate) node: NodeId,
    pub(crate) client_id: String,
    pub(crate) client_instance_id: Uuid,
    pub(crate) subscription_id: i32,
    pub(crate) terminating: bool,
    pub(crate) compression: &'static str,
    /// Decompressed.
    pub(crate) metrics: Vec<u8>,
}

/// A client that asked for its subscription.
#[derive(Debug, Default)]
struct Instance {
    asked_ms: Option<i64>,
    pushed_ms: Option<i64>,
    last_error: Option<ErrorCode>,
    terminated: bool,
}

impl Instance {
    /// A client may not ask before the interval is over, unless the broker told it to.
    fn may_ask(&self, now_ms: i64, interval_ms: i32) -> bool {
        use ErrorCode as Code;
        let last = self.asked_ms.max(self.pushed_ms);
        last.is_none_or(|last| now_ms - last >= i64::from(interval_ms))
            || matches!(self.last_error, Some(Code::UnknownSubscriptionId | Code::UnsupportedCompressionType))
    }

    /// A client may push after it has asked, or when the interval is over.
    fn may_push(&self, now_ms: i64, interval_ms: i32) -> bool {
        self.pushed_ms.is_none_or(|pushed| {
            self.asked_ms.is_some_and(|asked| asked > pushed) || now_ms - pushed >= i64::from(interval_ms)
        })
    }
}

#[derive(Debug, Default)]
pub(crate) struct ClientMetrics {
    subscriptions: BTreeMap<String, ConfigValues>,
    instances: BTreeMap<Uuid, Instance>,
    pushes: VecDeque<Push>,
}

impl ClientMetrics {
    pub(crate) fn of(&self, name: &str) -> Option<&ConfigValues> {
        self.subscriptions.get(name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.subscriptions.keys().map(String::as_str)
    }

    pub(crate) fn set(&mut self, name: &str, values: ConfigValues) {
        if values.is_empty() {
            self.subscriptions.remove(name);
        } else {
            self.subscriptions.insert(name.to_owned(), values);
        }
    }

    pub(crate) fn subscription_of(&self, client: MetricsClient<'_>) -> MetricsSubscription {
        let matching = self.subscriptions.values().filter(|values| matches(values, client));
        let (mut metrics, mut interval_ms) = (BTreeSet::new(), None);
        for values in matching {
            let list = values.get("metrics").map_or("", String::as_str);
            metrics.extend(list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned));
            let own = values.get("interval.ms").and_then(|value| value.parse().ok()).unwrap_or(DEFAULT_INTERVAL_MS);
            interval_ms = Some(interval_ms.map_or(own, |shortest: i32| shortest.min(own)));
        }
        if metrics.contains("*") {
            metrics = BTreeSet::from(["*".to_owned()]);
        }
        let interval_ms = interval_ms.unwrap_or(DEFAULT_INTERVAL_MS);
        MetricsSubscription { subscription_id: id_of(&metrics, interval_ms), interval_ms, metrics }
    }

    /// A client asks for its subscription.
    ///
    /// # Errors
    /// THROTTLING_QUOTA_EXCEEDED if it asks too early, INVALID_REQUEST after its last push.
    pub(crate) fn ask(&mut self, client: MetricsClient<'_>, now_ms: i64) -> Result<MetricsSubscription, ErrorCode> {
        let asked = self.subscription_of(client);
        let instance = self.instances.entry(client.id).or_default();
        if !instance.may_ask(now_ms, asked.interval_ms) {
            return Err(ErrorCode::ThrottlingQuotaExceeded);
        }
        instance.asked_ms = Some(now_ms);
        instance.last_error = None;
        Ok(asked)
    }

    /// Checks a push before its content is looked at.
    ///
    /// # Errors
    /// Kafka's errors, in the order of its checks.
    pub(crate) fn check_push(
        &mut self,
        client: MetricsClient<'_>,
        subscription_id: i32,
        terminating: bool,
        now_ms: i64,
    ) -> Result<(), ErrorCode> {
        let asked = self.subscription_of(client);
        let instance = self.instances.entry(client.id).or_default();
        if instance.terminated {
            return Err(ErrorCode::InvalidRequest);
        }
        if !terminating && !instance.may_push(now_ms, asked.interval_ms) {
            return Err(ErrorCode::ThrottlingQuotaExceeded);
        }
        instance.pushed_ms = Some(now_ms);
        instance.terminated = terminating;
        if subscription_id == asked.subscription_id { Ok(()) } else { Err(ErrorCode::UnknownSubscriptionId) }
    }

    /// Remembers how a push ended, by which the client may ask anew at once.
    pub(crate) fn note(&mut self, id: Uuid, error: Option<ErrorCode>) {
        self.instances.entry(id).or_default().last_error = error;
    }

    pub(crate) fn take(&mut self, push: Push) {
        if self.pushes.len() == PUSHES_KEPT {
            self.pushes.pop_front();
        }
        self.pushes.push_back(push);
    }

    pub(crate) fn pushes(&self) -> impl Iterator<Item = &Push> {
        self.pushes.iter()
    }
}

fn matches(values: &ConfigValues, client: MetricsClient<'_>) -> bool {
    let patterns = values.get("match").map(|value| parsed(value).unwrap_or_default()).unwrap_or_default();
    let id = client.id.to_string();
    patterns.iter().all(|(selector, expression)| match selector.as_str() {
        "client_id" => expression.is_match(client.client_id),
        "client_instance_id" => expression.is_match(&id),
        "client_source_address" => expression.is_match(client.host),
        _ => true,
    })
}

/// An id that changes with what is asked for (FNV-1a).
fn id_of(metrics: &BTreeSet<String>, interval_ms: i32) -> i32 {
    let text = metrics.iter().flat_map(|name| name.bytes().chain([0])).chain(interval_ms.to_be_bytes());
    let hash = text.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash & 0x7fff_ffff) as i32
}
