//! Throttling by client quotas (KIP-13, KIP-219): the rates of clients, and the time that a client beyond its quota has
//! to wait.
//!
//! The windows, the precedence of quotas and the wait are those of Kafka's `ClientQuotaManager`. A client that is
//! beyond its quota is answered at once, with the time that it has to wait, and its connection is not read for that
//! time.
//!
//! `producer_byte_rate` and `consumer_byte_rate` throttle. Not implemented: `request_percentage`, since the time that
//! this broker spends on a request says nothing about Kafka's; `controller_mutation_rate`, and
//! `connection_creation_rate`.

use std::collections::{BTreeMap, VecDeque};

use super::{Entity, Principal, Quotas, Security};

/// Kafka's `quota.window.num`.
const WINDOWS: usize = 11;
/// Kafka's `quota.window.size.seconds`.
const WINDOW_MS: i64 = 1000;
/// The number of rates that are kept before those that have ended are looked for.
const KEPT_RATES: usize = 1000;

/// A quota of bytes by second.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ByteQuota {
    /// Bytes of Produce requests.
    Produced,
    /// Bytes of Fetch responses.
    Fetched,
}

impl ByteQuota {
    /// The quota's name.
    fn key(self) -> &'static str {
        match self {
            Self::Produced => "producer_byte_rate",
            Self::Fetched => "consumer_byte_rate",
        }
    }
}

/// The clients that share a rate: a user, a client id, or one client id of a user. The part that does not count is
/// empty.
type Sharers = (ByteQuota, String, String);

/// The rates of clients with quotas.
#[derive(Debug, Default)]
pub(crate) struct Rates(BTreeMap<Sharers, Rate>);

/// A rate over Kafka's sliding window: what was counted, by the beginning of its part of the window.
#[derive(Debug, Default)]
struct Rate(VecDeque<(i64, f64)>);

impl Rate {
    fn record(&mut self, now_ms: i64, value: f64) {
        match self.0.back_mut() {
            Some((began_ms, sum)) if now_ms - *began_ms < WINDOW_MS => *sum += value,
            _ => self.0.push_back((now_ms, value)),
        }
        if self.0.len() > WINDOWS {
            self.0.pop_front();
        }
    }

    /// The rate by second, and the length of the window that it is measured over.
    fn measure(&mut self, now_ms: i64) -> (f64, i64) {
        self.0.retain(|(began_ms, _)| now_ms - began_ms < WINDOWS as i64 * WINDOW_MS);
        let elapsed_ms = self.0.front().map_or(0, |(began_ms, _)| now_ms - began_ms);
        // Windows that have not passed yet count as if they had, or the first bytes would be beyond any quota.
        let missing = (WINDOWS as i64 - 1 - elapsed_ms / WINDOW_MS).max(0);
        let window_ms = (elapsed_ms + missing * WINDOW_MS).max(WINDOW_MS);
        let sum: f64 = self.0.iter().map(|(_, sum)| sum).sum();
        (sum * 1000.0 / window_ms as f64, window_ms)
    }
}

impl Rates {
    /// Counts bytes. Returns how long the client has to wait, in milliseconds.
    fn record(&mut self, sharers: Sharers, limit: f64, bytes: f64, now_ms: i64) -> u64 {
        if self.0.len() >= KEPT_RATES && !self.0.contains_key(&sharers) {
            self.0.retain(|_, rate| {
                rate.measure(now_ms);
                !rate.0.is_empty()
            });
        }
        let rate = self.0.entry(sharers).or_default();
        rate.record(now_ms, bytes);
        let (value, window_ms) = rate.measure(now_ms);
        if value <= limit {
            return 0;
        }
        ((value - limit) / limit * window_ms as f64).round() as u64
    }

    /// Takes back what was counted for an answer that is not given.
    fn unrecord(&mut self, sharers: &Sharers, bytes: f64, now_ms: i64) {
        if let Some(rate) = self.0.get_mut(sharers) {
            rate.record(now_ms, -bytes);
        }
    }
}

impl Quotas {
    /// The quota of a client, with Kafka's precedence, and who shares it. Only entities that have this quota count.
    fn limit(&self, quota: ByteQuota, user: &str, client_id: &str) -> Option<(f64, Sharers)> {
        let entity = |user: Option<Option<&str>>, client_id: Option<Option<&str>>| -> Entity {
            let part = |kind: &str, name: Option<Option<&str>>| Some((kind.to_owned(), name?.map(str::to_owned)));
            [part("user", user), part("client-id", client_id)].into_iter().flatten().collect()
        };
        let (named, id) = (Some(Some(user)), Some(Some(client_id)));
        let default = Some(None);
        let both = [(named, id), (named, default)];
        let both_of_default = [(default, id), (default, default)];
        let order = [&both[..], &[(named, None)], &both_of_default, &[(default, None)], &[(None, id), (None, default)]];
        let (user_of, client_id_of) = order.concat().into_iter().find(|&(user, of_client)| {
            // A client without an id has no quota by its id.
            (of_client.is_none() || !client_id.is_empty())
                && self.value(&entity(user, of_client), quota.key()).is_some()
        })?;
        let limit = self.value(&entity(user_of, client_id_of), quota.key())?;
        let sharer = |part: Option<Option<&str>>, name: &str| part.map_or_else(String::new, |_| name.to_owned());
        Some((limit, (quota, sharer(user_of, user), sharer(client_id_of, client_id))))
    }
}

impl Security {
    /// Counts the bytes of a request or a response for the quota of a client, its principal and its client id. Returns
    /// how long the client has to wait, in milliseconds.
    pub(crate) fn throttle(&mut self, client: (&Principal, &str), quota: ByteQuota, bytes: usize, now_ms: i64) -> u64 {
        let Some((limit, sharers)) = self.quota_limit(client, quota) else { return 0 };
        let wait_ms = self.rates.record(sharers.clone(), limit, bytes as f64, now_ms);
        if wait_ms > 0 && quota == ByteQuota::Fetched {
            // The answer that was counted is replaced by an empty one.
            self.rates.unrecord(&sharers, bytes as f64, now_ms);
        }
        wait_ms
    }

    /// The largest Fetch response that the client's quota ever lets pass.
    pub(crate) fn fetch_quota_bytes(&self, client: (&Principal, &str)) -> i32 {
        let limit = self.quota_limit(client, ByteQuota::Fetched);
        // A float that does not fit becomes the largest number that does.
        limit.map_or(i32::MAX, |(limit, _)| (limit * (WINDOWS - 1) as f64) as i32)
    }

    fn quota_limit(&self, (principal, client_id): (&Principal, &str), quota: ByteQuota) -> Option<(f64, Sharers)> {
        if self.quotas.is_empty() {
            return None;
        }
        self.quotas.limit(quota, principal.name(), client_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: &str = "producer_byte_rate";

    /// An entity and its quota.
    type Set<'a> = (&'a [(&'a str, Option<&'a str>)], f64);

    fn quotas(set: &[Set<'_>]) -> Quotas {
        let mut quotas = Quotas::default();
        for (entity, value) in set {
            let entity = entity.iter().map(|(kind, name)| ((*kind).to_owned(), name.map(str::to_owned))).collect();
            quotas.alter(entity, &[(RATE.to_owned(), Some(*value))].into());
        }
        quotas
    }

    fn limit(quotas: &Quotas, user: &str, client_id: &str) -> Option<f64> {
        quotas.limit(ByteQuota::Produced, user, client_id).map(|(limit, _)| limit)
    }

    #[test]
    fn the_most_special_quota_counts() {
        let (anna, any_user) = (("user", Some("anna")), ("user", None));
        let (etl, any_client) = (("client-id", Some("etl")), ("client-id", None));
        let all: [Set<'_>; 8] = [
            (&[anna, etl], 1.0),
            (&[anna, any_client], 2.0),
            (&[anna], 3.0),
            (&[any_user, etl], 4.0),
            (&[any_user, any_client], 5.0),
            (&[any_user], 6.0),
            (&[etl], 7.0),
            (&[any_client], 8.0),
        ];
        for (first, (_, expected)) in all.iter().enumerate() {
            assert_eq!(limit(&quotas(&all[first..]), "anna", "etl"), Some(*expected));
        }
        assert_eq!(limit(&quotas(&all), "anna", "other"), Some(2.0));
        assert_eq!(limit(&quotas(&all), "ben", "other"), Some(5.0));
        assert_eq!(limit(&quotas(&all), "anna", ""), Some(3.0), "a client without an id has none by its id");
        assert_eq!(limit(&quotas(&all), "ben", ""), Some(6.0));
        assert_eq!(limit(&quotas(&[]), "anna", "etl"), None);
        assert!(quotas(&all).limit(ByteQuota::Fetched, "anna", "etl").is_none(), "another quota");
    }

    #[test]
    fn all_clients_of_a_user_share_the_users_quota() {
        let quotas = quotas(&[(&[("user", Some("anna"))], 10.0)]);
        let sharers = |client_id| quotas.limit(ByteQuota::Produced, "anna", client_id).map(|(_, sharers)| sharers);
        assert_eq!(sharers("one"), sharers("two"));
        let quotas = self::quotas(&[(&[("user", Some("anna")), ("client-id", None)], 10.0)]);
        let sharers = |client_id| quotas.limit(ByteQuota::Produced, "anna", client_id).map(|(_, sharers)| sharers);
        assert_ne!(sharers("one"), sharers("two"), "the default is a quota for each");
    }

    #[test]
    fn a_client_waits_until_its_rate_is_down_at_the_quota() {
        let mut rates = Rates::default();
        let sharers = || (ByteQuota::Produced, "anna".to_owned(), String::new());
        let mut record = |bytes: f64, now_ms| rates.record(sharers(), 1000.0, bytes, now_ms);
        assert_eq!(record(10_000.0, 5000), 0, "ten seconds' worth");
        assert_eq!(record(5000.0, 5000), 5000);
        assert_eq!(record(0.0, 10_000), 5000, "there is no credit for the time of a wait below eleven seconds");
        assert_eq!(record(0.0, 16_000), 0, "the bytes have left the window");
    }
}
