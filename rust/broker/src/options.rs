//! The options of a broker at its start, as JSON: the same from Python and from the command line.

use std::collections::BTreeMap;
use std::path::PathBuf;

use monedula_protocol::api::supported;
use serde::Deserialize;

use crate::BrokerError;
use crate::security::{self, Acl, ClientAuth, Principal, Secret, SecurityProtocol, SecuritySettings};
use crate::server::Clock;
use crate::settings::{Settings, TopicSpec};

/// The options of a broker, each the field of its name in [`Settings`] or [`SecuritySettings`] unless it says
/// otherwise. Absent ones have the defaults of [`Settings`].
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "documented at the fields of the settings")]
pub struct Options {
    pub nodes: u16,
    pub first_node_id: i32,
    pub host: String,
    pub port: u16,
    pub racks: Vec<String>,
    pub data_dir: Option<PathBuf>,
    pub control_port: Option<u16>,
    /// Each as `name` or `name:partitions`.
    pub topics: Vec<String>,
    /// The security protocol of all nodes: `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`.
    pub security: String,
    /// Further security protocols. Each node listens for each of them on a port of its own: the next after those of all
    /// nodes, or any free one.
    pub listeners: Vec<String>,
    #[serde(deserialize_with = "security::users")]
    pub users: BTreeMap<String, Secret>,
    /// Empty for all that the broker has.
    pub mechanisms: Vec<String>,
    pub unsecured_tokens: bool,
    /// `none`, `requested` or `required`.
    pub client_auth: String,
    pub max_reauth_ms: i64,
    /// An authorizer decides what clients may do if there are any ACLs, or any super users.
    pub acls: Vec<Acl>,
    /// Such as `User:admin`.
    pub super_users: Vec<String>,
    /// Kafka's broker settings, by name.
    pub settings: BTreeMap<String, String>,
    /// By the API's name.
    pub max_versions: BTreeMap<String, i16>,
    pub coordinator_load_ms: i64,
    /// `once` or `kafka`, see [`FirstUse`](crate::FirstUse).
    pub first_use: String,
    pub client_metrics: bool,
    pub seed: u64,
    /// True if the clock is manual: it stands still until a command advances it.
    pub manual_clock: bool,
}

impl Default for Options {
    fn default() -> Self {
        let settings = Settings::default();
        Self {
            nodes: settings.nodes,
            first_node_id: settings.first_node_id,
            host: settings.host,
            port: settings.port,
            racks: settings.racks,
            data_dir: settings.data_dir,
            control_port: None,
            topics: Vec::new(),
            security: settings.security.protocol.name().to_owned(),
            listeners: Vec::new(),
            users: BTreeMap::new(),
            mechanisms: Vec::new(),
            unsecured_tokens: false,
            client_auth: "none".to_owned(),
            max_reauth_ms: settings.security.max_reauth_ms,
            acls: Vec::new(),
            super_users: Vec::new(),
            settings: BTreeMap::new(),
            max_versions: BTreeMap::new(),
            coordinator_load_ms: settings.coordinator_load_ms,
            first_use: settings.first_use.name().to_owned(),
            client_metrics: settings.client_metrics,
            seed: settings.seed,
            manual_clock: false,
        }
    }
}

impl Options {
    /// Reads options from JSON.
    ///
    /// # Errors
    /// [`BrokerError::Setting`] for an unknown option or a value of another type.
    pub fn from_json(text: &str) -> Result<Self, BrokerError> {
        let wrong = |error: serde_json::Error| setting("options", error.to_string());
        serde_json::from_str(text).map_err(wrong)
    }

    /// The settings that the options stand for.
    ///
    /// # Errors
    /// [`BrokerError::Setting`] for an unknown name or an invalid value.
    pub fn settings(&self) -> Result<Settings, BrokerError> {
        if usize::from(self.nodes) < self.racks.len() {
            let problem = format!("{} racks for {} nodes", self.racks.len(), self.nodes);
            return Err(setting("racks", problem));
        }
        let ports = usize::from(self.nodes) * (1 + self.listeners.len());
        if self.port != 0 && usize::from(u16::MAX - self.port) < ports.saturating_sub(1) {
            let problem = format!("{}, but the nodes need {ports} ports from there on", self.port);
            return Err(setting("port", problem));
        }
        let mut settings = Settings {
            nodes: self.nodes,
            first_node_id: self.first_node_id,
            host: self.host.clone(),
            port: self.port,
            racks: self.racks.clone(),
            data_dir: self.data_dir.clone(),
            control_port: self.control_port,
            topics: self.topics.iter().map(|topic| topic.parse::<TopicSpec>()).collect::<Result<_, _>>()?,
            coordinator_load_ms: self.coordinator_load_ms,
            first_use: self.first_use.parse().map_err(|problem: String| setting("first_use", problem))?,
            client_metrics: self.client_metrics,
            seed: self.seed,
            ..Settings::default()
        };
        settings.security = self.security()?;
        for (name, value) in &self.settings {
            settings.set(name, value)?;
        }
        settings.kafka.check_share_groups()?;
        for (name, version) in &self.max_versions {
            settings.max_versions.insert(api_code(name)?, *version);
        }
        Ok(settings)
    }

    fn security(&self) -> Result<SecuritySettings, BrokerError> {
        let mut settings = SecuritySettings {
            protocol: self.security.parse::<SecurityProtocol>().map_err(|problem| setting("security", problem))?,
            users: self.users.clone(),
            unsecured_tokens: self.unsecured_tokens,
            client_auth: self.client_auth.parse().map_err(|problem| setting("client_auth", problem))?,
            max_reauth_ms: self.max_reauth_ms,
            authorizer: !(self.acls.is_empty() && self.super_users.is_empty()),
            acls: self.acls.clone(),
            ..Default::default()
        };
        for name in &self.listeners {
            let protocol = name.parse::<SecurityProtocol>().map_err(|problem| setting("listeners", problem))?;
            if settings.protocols().any(|other| other == protocol) {
                return Err(setting("listeners", format!("there are two of {name}")));
            }
            settings.listeners.push(protocol);
        }
        for user in &self.super_users {
            settings.super_users.push(Principal::parse(user).map_err(|problem| setting("super_users", problem))?);
        }
        if !self.mechanisms.is_empty() {
            let mechanisms = self.mechanisms.iter().map(|name| security::mechanism(name));
            settings.mechanisms =
                mechanisms.collect::<Result<_, _>>().map_err(|problem| setting("mechanisms", problem))?;
        }
        if !self.users.is_empty() && !settings.has_sasl() {
            let problem = format!("users log in with SASL only, and security is {}", settings.protocol.name());
            return Err(setting("users", problem));
        }
        if settings.client_auth != ClientAuth::None && !settings.has_tls() {
            let problem = format!("certificates are shown with TLS only, and security is {}", settings.protocol.name());
            return Err(setting("client_auth", problem));
        }
        Ok(settings)
    }

    /// The clock that the options stand for.
    pub fn clock(&self) -> Clock {
        let system = Clock::system();
        if self.manual_clock { Clock::manual(system.now_ms()) } else { system }
    }
}

fn api_code(name: &str) -> Result<i16, BrokerError> {
    let found = supported().iter().find(|(key, ..)| key.name() == name);
    found.map(|(key, ..)| key.code()).ok_or_else(|| {
        let names: Vec<_> = supported().iter().map(|(key, ..)| key.name()).collect();
        setting("max_versions", format!("there is no API {name}; there are {}", names.join(", ")))
    })
}

fn setting(name: &str, problem: impl ToString) -> BrokerError {
    BrokerError::Setting { name: name.to_owned(), problem: problem.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_settings() {
        let text = r#"{"nodes": 3, "topics": ["orders:3", "events"], "max_versions": {"Fetch": 11},
                       "settings": {"group.min.session.timeout.ms": "100"}}"#;
        let settings = Options::from_json(text).unwrap().settings().unwrap();
        assert_eq!((settings.nodes, settings.max_versions[&1]), (3, 11));
        assert_eq!(settings.topics[0], TopicSpec { name: "orders".to_owned(), partitions: Some(3) });
        assert_eq!(settings.topics[1].partitions, None);
        assert_eq!(settings.kafka.group_min_session_timeout_ms, 100);
    }

    #[test]
    fn passwords_are_in_no_debug_text_and_in_no_error() {
        let options = Options::from_json(r#"{"security": "SASL_SSL", "users": {"anna": "canary"}}"#).unwrap();
        assert!(!format!("{options:?} {:?}", options.settings().unwrap()).contains("canary"));
        let wrong = Options::from_json(r#"{"users": {"anna": {"password": "canary"}}}"#).unwrap_err();
        assert!(!wrong.to_string().contains("canary"), "{wrong}");
    }

    #[test]
    fn what_is_wrong_with_an_option_is_told() {
        let problem =
            |text: &str| Options::from_json(text).and_then(|options| options.settings()).unwrap_err().to_string();
        assert!(problem(r#"{"node": 3}"#).contains("unknown field `node`"));
        assert!(problem(r#"{"first_use": "never"}"#).starts_with("first_use: \"never\" is neither"));
        assert!(problem(r#"{"topics": ["orders:none"]}"#).contains("name:partitions"));
        assert!(problem(r#"{"max_versions": {"Fetsh": 1}}"#).contains("no API Fetsh"));
        assert!(problem(r#"{"racks": ["a", "b"]}"#).starts_with("racks: 2 racks"));
        assert!(problem(r#"{"port": 65535, "nodes": 2}"#).starts_with("port: 65535"));
        assert!(problem(r#"{"security": "TLS"}"#).contains("none of PLAINTEXT, SSL"));
        assert!(problem(r#"{"listeners": ["PLAINTEXT"]}"#).contains("two of PLAINTEXT"));
        assert!(problem(r#"{"port": 65533, "nodes": 2, "listeners": ["SSL"]}"#).starts_with("port: 65533"));
        assert!(problem(r#"{"mechanisms": ["GSSAPI"]}"#).contains("none of PLAIN, SCRAM-SHA-256"));
        assert!(problem(r#"{"users": {"anna": "canary"}}"#).starts_with("users: users log in with SASL only"));
        assert!(problem(r#"{"client_auth": "required"}"#).starts_with("client_auth: certificates"));
        assert!(problem(r#"{"super_users": ["root"]}"#).contains("no principal"));
    }
}
