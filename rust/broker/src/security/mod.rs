//! Authentication, authorization and quotas of clients.
//!
//! Everything is off by default: a connection is anonymous, and every client may do everything.

mod acl;
mod authorizer;
mod certificates;
mod distinguished_name;
mod login;
mod oauth;
mod passwords;
mod principal;
mod principal_mapping;
mod quotas;
mod stored;
mod throttling;
mod tokens;
mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

pub(crate) use acl::{ANY, AclFilter, CLUSTER_NAME, MATCH, UNKNOWN};
pub use acl::{Acl, Operation, PatternType, PermissionType, ResourceType};
pub(crate) use authorizer::{Authorizer, Client, Resource};
pub(crate) use certificates::{Certificates, Flaw, Issued};
pub(crate) use distinguished_name::subject;
pub(crate) use login::{BrokerAccounts, Gate, Login, SaslExchange, Session, session_ms};
use oauth::OauthKeys;
pub use passwords::Password;
pub(crate) use passwords::users;
pub use principal::Principal;
pub use principal_mapping::PrincipalMapping;
pub(crate) use quotas::{Entity, Match, Quotas};
use stored::StoredCredential;
pub(crate) use stored::StoredSecurity;
pub(crate) use throttling::ByteQuota;
use throttling::Rates;
pub(crate) use tokens::{Lifetimes, Token, Tokens};
pub(crate) use users::Users;

pub use monedula_protocol::sasl::Mechanism;
pub use monedula_protocol::secret::Secret;
pub use monedula_protocol::security_protocol::SecurityProtocol;

use crate::BrokerError;

/// The demand for certificates of clients (`ssl.client.auth`).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// The broker does not ask for one.
    #[default]
    None,
    /// Clients may present one.
    Requested,
    /// Clients have to present one.
    Required,
}

impl FromStr for ClientAuth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "requested" => Ok(Self::Requested),
            "required" => Ok(Self::Required),
            _ => Err(format!("{text:?} is none of none, requested, required")),
        }
    }
}

/// The mechanisms that the broker has.
const MECHANISMS: [Mechanism; 4] =
    [Mechanism::Plain, Mechanism::ScramSha256, Mechanism::ScramSha512, Mechanism::OauthBearer];

/// The mechanism of a name.
///
/// # Errors
/// A name that the broker does not have.
pub(crate) fn mechanism(name: &str) -> Result<Mechanism, String> {
    let found = Mechanism::from_name(name).filter(|mechanism| MECHANISMS.contains(mechanism));
    found.ok_or_else(|| format!("{name:?} is none of {}", MECHANISMS.map(Mechanism::name).join(", ")))
}

/// Random bytes from the operating system: nonces, salts and keys must not follow from the broker's seed.
pub(crate) fn random<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    let filled = rustls::crypto::aws_lc_rs::default_provider().secure_random.fill(&mut bytes);
    filled.expect("the operating system has random bytes");
    bytes
}

/// The settings of security with which a broker starts.
#[derive(Clone, Debug)]
pub struct SecuritySettings {
    /// The security protocol of each node's first listener.
    pub protocol: SecurityProtocol,
    /// The security protocols of the further listeners that each node has, each on a port of its own.
    pub listeners: Vec<SecurityProtocol>,
    /// The SASL mechanisms that clients may choose (`sasl.enabled.mechanisms`).
    pub mechanisms: Vec<Mechanism>,
    /// The users with their passwords, for PLAIN and SCRAM.
    pub users: BTreeMap<String, Secret>,
    /// True if OAUTHBEARER takes tokens without a signature.
    pub unsecured_tokens: bool,
    /// The demand for certificates of clients (`ssl.client.auth`).
    pub client_auth: ClientAuth,
    /// The rules by which a certificate's subject becomes a principal (`ssl.principal.mapping.rules`).
    pub principal_mapping: PrincipalMapping,
    /// The time after which clients have to log in again, in milliseconds; 0 for never (`connections.max.reauth.ms`).
    pub max_reauth_ms: i64,
    /// The largest frame before a login (`sasl.server.max.receive.size`).
    pub max_receive_bytes: i32,
    /// The delay of the answer to a refused login, in milliseconds (`connection.failed.authentication.delay.ms`).
    pub failed_authentication_delay_ms: u64,
    /// `delegation.token.max.lifetime.ms`.
    pub token_max_lifetime_ms: i64,
    /// `delegation.token.expiry.time.ms`.
    pub token_expiry_ms: i64,
    /// True if there is an authorizer (`authorizer.class.name`). Without one everybody may do everything.
    pub authorizer: bool,
    /// The principals that may do everything (`super.users`).
    pub super_users: Vec<Principal>,
    /// True if a resource without any ACL is open to everybody (`allow.everyone.if.no.acl.found`).
    pub allow_everyone_if_no_acl_found: bool,
    /// The ACLs that exist at the start.
    pub acls: Vec<Acl>,
}

impl Default for SecuritySettings {
    fn default() -> Self {
        let lifetimes = Lifetimes::default();
        Self {
            protocol: SecurityProtocol::default(),
            listeners: Vec::new(),
            mechanisms: MECHANISMS.to_vec(),
            users: BTreeMap::new(),
            unsecured_tokens: false,
            client_auth: ClientAuth::default(),
            principal_mapping: PrincipalMapping::default(),
            max_reauth_ms: 0,
            max_receive_bytes: 524_288,
            failed_authentication_delay_ms: 100,
            token_max_lifetime_ms: lifetimes.max_ms,
            token_expiry_ms: lifetimes.expiry_ms,
            authorizer: false,
            super_users: Vec::new(),
            allow_everyone_if_no_acl_found: false,
            acls: Vec::new(),
        }
    }
}

impl SecuritySettings {
    /// The security protocols of all listeners.
    pub fn protocols(&self) -> impl Iterator<Item = SecurityProtocol> {
        std::iter::once(self.protocol).chain(self.listeners.iter().copied())
    }

    /// True if a listener is encrypted.
    pub fn has_tls(&self) -> bool {
        self.protocols().any(SecurityProtocol::has_tls)
    }

    /// True if clients log in at a listener.
    pub fn has_sasl(&self) -> bool {
        self.protocols().any(SecurityProtocol::has_sasl)
    }

    /// Sets a setting by Kafka's name. Returns false if it is none about security.
    ///
    /// # Errors
    /// [`BrokerError::Setting`] for an invalid value.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<bool, BrokerError> {
        let wrong = |problem: String| BrokerError::Setting { name: name.to_owned(), problem };
        match name {
            "authorizer.class.name" => self.authorizer = !value.trim().is_empty(),
            "super.users" => {
                // Kafka separates them by semicolons, because names of certificates contain commas.
                let users = value.split(';').map(str::trim).filter(|user| !user.is_empty());
                self.super_users = users.map(Principal::parse).collect::<Result<_, _>>().map_err(wrong)?;
            }
            "sasl.enabled.mechanisms" => {
                let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
                self.mechanisms = names.map(mechanism).collect::<Result<_, _>>().map_err(wrong)?;
            }
            "ssl.client.auth" => self.client_auth = value.trim().parse().map_err(wrong)?,
            "ssl.principal.mapping.rules" => {
                self.principal_mapping = PrincipalMapping::parse(value).map_err(wrong)?;
            }
            "connections.max.reauth.ms" => self.max_reauth_ms = number(value).map_err(wrong)?,
            "sasl.server.max.receive.size" => self.max_receive_bytes = number(value).map_err(wrong)?,
            "connection.failed.authentication.delay.ms" => {
                self.failed_authentication_delay_ms = number(value).map_err(wrong)?;
            }
            "delegation.token.max.lifetime.ms" => self.token_max_lifetime_ms = number(value).map_err(wrong)?,
            "delegation.token.expiry.time.ms" => self.token_expiry_ms = number(value).map_err(wrong)?,
            "allow.everyone.if.no.acl.found" => self.allow_everyone_if_no_acl_found = boolean(value).map_err(wrong)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn number<T: FromStr>(value: &str) -> Result<T, String> {
    value.trim().parse().map_err(|_| format!("{value:?} is not a number that fits"))
}

fn boolean(value: &str) -> Result<bool, String> {
    match value.trim().to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("{value:?} is neither true nor false")),
    }
}

/// The state of security that outlives a connection.
#[derive(Debug)]
pub(crate) struct Security {
    /// `None` if everybody may do everything.
    authorizer: Option<Authorizer>,
    /// ACLs that were stored, and that count for nothing, because there is no authorizer.
    idle_acls: BTreeSet<Acl>,
    users: Users,
    /// The users of the settings, each with the password that the settings gave it.
    given_users: BTreeMap<String, StoredCredential>,
    tokens: Tokens,
    oauth: OauthKeys,
    quotas: Quotas,
    rates: Rates,
    /// `None` if connections are not encrypted.
    certificates: Option<Certificates>,
}

impl Security {
    /// # Errors
    /// [`BrokerError::Command`] if there is no randomness for keys.
    pub(crate) fn new(settings: &SecuritySettings, host: &str) -> Result<Self, BrokerError> {
        let mut users = Users::default();
        for (name, password) in &settings.users {
            users.set_password(name, password.clone());
        }
        let lifetimes = Lifetimes { max_ms: settings.token_max_lifetime_ms, expiry_ms: settings.token_expiry_ms };
        Ok(Self {
            authorizer: settings.authorizer.then(|| Authorizer::new(settings)),
            idle_acls: BTreeSet::new(),
            users,
            given_users: BTreeMap::new(),
            tokens: Tokens::new(lifetimes),
            oauth: OauthKeys::new(settings.unsecured_tokens),
            quotas: Quotas::default(),
            rates: Rates::default(),
            certificates: settings.has_tls().then(|| Certificates::new(host)).transpose()?,
        })
    }

    pub(crate) fn authorizer(&self) -> Option<&Authorizer> {
        self.authorizer.as_ref()
    }

    pub(crate) fn authorizer_mut(&mut self) -> Option<&mut Authorizer> {
        self.authorizer.as_mut()
    }

    pub(crate) fn users(&self) -> &Users {
        &self.users
    }

    pub(crate) fn users_mut(&mut self) -> &mut Users {
        &mut self.users
    }

    pub(crate) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    pub(crate) fn tokens_mut(&mut self) -> &mut Tokens {
        &mut self.tokens
    }

    pub(crate) fn oauth(&self) -> &OauthKeys {
        &self.oauth
    }

    pub(crate) fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    pub(crate) fn quotas_mut(&mut self) -> &mut Quotas {
        &mut self.quotas
    }

    /// The CA of the broker.
    ///
    /// # Errors
    /// [`BrokerError::Command`] if the broker has no TLS.
    pub(crate) fn certificates(&self) -> Result<&Certificates, BrokerError> {
        let problem = "the broker has no TLS: start it with security SSL or SASL_SSL";
        self.certificates.as_ref().ok_or_else(|| BrokerError::Command(problem.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_go_by_kafkas_names() {
        let mut settings = SecuritySettings::default();
        assert!(settings.set("super.users", "User:root; User:CN=a,O=b").unwrap());
        assert_eq!(settings.super_users[1], Principal::user("CN=a,O=b"));
        assert!(settings.set("allow.everyone.if.no.acl.found", "True").unwrap());
        assert!(
            settings.set("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer").unwrap()
        );
        assert!(settings.authorizer && settings.allow_everyone_if_no_acl_found);
        assert!(!settings.set("num.partitions", "1").unwrap());
        assert!(settings.set("super.users", "root").is_err());
    }
}
