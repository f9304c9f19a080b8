//! Settings as text: looked up by name or alias, checked against the table, with defaults filled in. [`ConfigError`]
//! says what is wrong with one. TLS and SASL depend on this module, and the typed settings depend on them.

use std::time::Duration;

use monedula_engine::backoff::Backoff;
use monedula_protocol::secret::Secret;
use monedula_protocol::security_protocol::SecurityProtocol;

use crate::config::iso_duration::{self, DurationProblem};
use crate::config_keys::{BY_DURATION, GROUP_SETTINGS, KEYS, Key, Role, SettingKind};

/// An invalid setting: the message says which one, the value given and the values allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConfigError {
    /// The key as given.
    pub key: String,
    /// The whole message.
    pub message: String,
}

/// The text without the escapes of a URL.
pub(crate) fn url_decoded(text: &str) -> Vec<u8> {
    let (mut decoded, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = (byte == b'%').then(|| after.get(..2)).flatten();
        let escaped = escaped.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        decoded.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    decoded
}

/// True if the value of a setting is PEM, not the path of a file.
fn takes_pem(name: &str) -> bool {
    ["pem", "chain", "certificates"].iter().any(|ending| name.ends_with(ending))
}

/// Checked values by their names in the table, including defaults.
#[derive(Clone)]
pub(crate) struct ConfigValues {
    values: Vec<(&'static Key, String)>,
    secrets: Vec<(&'static str, Secret)>,
    /// The settings that the user gave: the name in the table, and the name by which they gave it.
    given: Vec<(&'static str, String)>,
    pub(crate) warnings: Vec<String>,
}

impl ConfigValues {
    /// Checks the settings given to a client of this role. A setting of another role causes a
    /// warning only, since people share one dict among their clients.
    pub(crate) fn collect<'a>(
        given: impl IntoIterator<Item = (&'a str, &'a str)>,
        role: Role,
    ) -> Result<Self, ConfigError> {
        let mut values: Vec<(&'static Key, String)> = Vec::new();
        let mut names: Vec<(&'static str, String)> = Vec::new();
        let (mut secrets, mut warnings) = (Vec::new(), Vec::new());
        for (name, value) in given {
            let dotted = name.trim().replace('_', ".");
            let (key, factor) = find(name, &dotted)?;
            if let Some((_, before)) = names.iter().find(|(known, _)| *known == key.name) {
                let message = format!("{name} and {before} are the same setting ({}); give one of them", key.name);
                return Err(ConfigError { key: name.into(), message });
            }
            names.push((key.name, name.into()));
            match key.kind {
                SettingKind::Secret => {
                    secrets.push((key.name, Secret::from(value)));
                    values.push((key, String::new()));
                }
                _ if value.contains("PRIVATE KEY-----") && !takes_pem(key.name) => {
                    // The value is left out: it is a secret.
                    let message = format!(
                        "{name} is the text of a private key, where something else is expected ({}); the text goes into \
                         ssl.key.pem or ssl.keystore.key",
                        key.description
                    );
                    return Err(ConfigError { key: name.into(), message });
                }
                _ => values.push((key, key.check(name, value.trim(), factor)?)),
            }
            if !key.role.serves(role) {
                let (of, role) = (key.role.name(), role.name());
                let of = of.replace(" and ", "s and ");
                warnings.push(format!("{name} is a setting of {of}s; this {role} does without"));
            }
        }
        for key in KEYS {
            if values.iter().any(|(known, _)| known.name == key.name) {
                continue;
            }
            let Some(default) = key.default else {
                let message = format!("{} is missing: {}", key.name, key.description);
                return Err(ConfigError { key: key.name.into(), message });
            };
            values.push((key, default.into()));
        }
        Ok(Self { values, secrets, given: names, warnings })
    }

    /// True if the user gave this setting, even with its default.
    pub(crate) fn is_given(&self, name: &str) -> bool {
        self.given.iter().any(|(known, _)| *known == name)
    }

    /// The name by which the user gave this setting, for errors; else its name in the table.
    pub(crate) fn name_of<'n>(&'n self, name: &'n str) -> &'n str {
        self.given.iter().find(|(known, _)| *known == name).map_or(name, |(_, given)| given)
    }

    /// Names of the settings that the user gave, as they gave them, which begin like this in the table.
    pub(crate) fn given_under<'n>(&'n self, prefix: &'n str) -> impl Iterator<Item = &'n str> {
        self.given.iter().filter(move |(known, _)| known.starts_with(prefix)).map(|(_, given)| given.as_str())
    }

    /// A secret; `None` if it is empty or was not given.
    pub(crate) fn secret(&self, name: &str) -> Option<Secret> {
        let found = self.secrets.iter().find(|(known, _)| *known == name).map(|(_, secret)| secret.clone());
        found.filter(|secret| !secret.is_empty())
    }

    /// `security.protocol`, whose values the table allows only as they are known here.
    pub(crate) fn security_protocol(&self) -> SecurityProtocol {
        self.text("security.protocol").parse().unwrap_or_default()
    }

    pub(crate) fn text(&self, name: &str) -> String {
        let value = self.values.iter().find(|(key, _)| key.name == name).map(|(_, value)| value.clone());
        value.unwrap_or_default()
    }

    /// A text; `None` if it is empty.
    pub(crate) fn given(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    pub(crate) fn int(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or_default()
    }

    pub(crate) fn bool(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    pub(crate) fn millis(&self, name: &str) -> Duration {
        Duration::from_millis(self.int(name).unsigned_abs())
    }

    pub(crate) fn backoff(&self, initial: &str, max: &str) -> Backoff {
        let initial = self.millis(initial);
        Backoff { initial, max: self.millis(max).max(initial), factor: self.int("retry.backoff.factor") as u32 }
    }
}

/// The key of this name or alias, and the factor from the alias's unit to the key's.
fn find(name: &str, dotted: &str) -> Result<(&'static Key, i64), ConfigError> {
    for key in KEYS {
        if key.name == dotted {
            return Ok((key, 1));
        }
        if let Some(&(_, factor)) = key.aliases.iter().find(|(alias, _)| *alias == dotted) {
            return Ok((key, factor));
        }
    }
    let error = |message| Err(ConfigError { key: name.into(), message });
    if dotted.starts_with("schema.registry.ssl.truststore.") {
        // The nearest by its letters is the keystore, which is for the client's own certificate.
        return error(format!(
            "{name} is no setting that this client knows; the authorities that sign the registry's certificate are given as a \
             PEM file, in schema.registry.ssl.ca.location"
        ));
    }
    if GROUP_SETTINGS.contains(&dotted) {
        return error(format!(
            "{name} is a setting of the share group, not of its members: Admin(settings).alter_configs({{(\"group\", group_id): \
             {{\"{dotted}\": value}}}})"
        ));
    }
    let known =
        KEYS.iter().flat_map(|key| std::iter::once(key.name).chain(key.aliases.iter().map(|(alias, _)| *alias)));
    let nearest = known.map(|candidate| (strsim::damerau_levenshtein(candidate, dotted), candidate)).min();
    error(match nearest {
        Some((distance, candidate)) if distance <= dotted.len().div_ceil(3) => {
            format!("{name} is no setting that this client knows; did you mean {candidate}?")
        }
        _ => format!("{name} is no setting that this client knows; monedula.config_keys() lists them all"),
    })
}

/// Texts that requests contain. One that is too long for the protocol would prevent every request,
/// so it is refused here.
const SENT: [&str; 5] = ["client.id", "group.id", "group.instance.id", "client.rack", "transactional.id"];

const LONGEST_SENT: usize = i16::MAX as usize;

impl Key {
    /// Checks a value and converts it to the key's own unit and spelling.
    fn check(&self, name: &str, value: &str, factor: i64) -> Result<String, ConfigError> {
        let error = |expected: String| {
            Err(ConfigError { key: name.into(), message: format!("{name}={value:?}: expected {expected}") })
        };
        match self.kind {
            SettingKind::Text if SENT.contains(&self.name) && value.len() > LONGEST_SENT => {
                let message = format!("{name} has {} bytes; Kafka's protocol has room for {LONGEST_SENT}", value.len());
                Err(ConfigError { key: name.into(), message })
            }
            SettingKind::Text | SettingKind::Secret => Ok(value.into()),
            SettingKind::Bool => match value.to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => Ok("true".into()),
                "false" | "0" | "no" | "off" => Ok("false".into()),
                _ => error("true or false".into()),
            },
            SettingKind::Choice(choices) => match choices.iter().find(|choice| choice.eq_ignore_ascii_case(value)) {
                Some(choice) => Ok((*choice).into()),
                None => {
                    let named: Vec<&str> = choices.iter().copied().filter(|choice| !choice.is_empty()).collect();
                    error(format!("one of {}", named.join(", ")))
                }
            },
            SettingKind::ChoiceOrDuration(choices) => {
                if let Some(choice) = choices.iter().find(|choice| choice.eq_ignore_ascii_case(value)) {
                    return Ok((*choice).into());
                }
                let lower = value.to_ascii_lowercase();
                let why = match lower.strip_prefix(BY_DURATION).map(iso_duration::parse) {
                    Some(Ok(_)) => return Ok(lower),
                    Some(Err(DurationProblem::Negative)) => "; a negative one would be in the future",
                    Some(Err(DurationProblem::TooLong)) => "; that is too long",
                    Some(Err(DurationProblem::Malformed)) | None => "",
                };
                let names = choices.join(", ");
                error(format!("one of {names}, or a duration such as {BY_DURATION}P7D or {BY_DURATION}PT1H30M{why}"))
            }
            SettingKind::Int { min, max } => {
                match value.parse::<i64>().ok().and_then(|value| value.checked_mul(factor)) {
                    Some(value) if (min..=max).contains(&value) => Ok(value.to_string()),
                    _ => error(format!("a whole number from {} to {}", min / factor, max / factor)),
                }
            }
        }
    }
}
