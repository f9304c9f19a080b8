//! Definitions of the configs of topics, brokers and groups: name, type, default and limits, under Kafka's names.
//!
//! Values are stored as text. [`ConfigDef::normalize`] parses a value as Kafka's `ConfigDef` does, with the same error
//! messages.

use std::fmt;

use crate::settings::ConfigType;

/// The source of a config value, with Kafka's codes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum ConfigSource {
    Topic = 1,
    DynamicBroker = 2,
    DynamicDefaultBroker = 3,
    StaticBroker = 4,
    Default = 5,
    ClientMetrics = 7,
    Group = 8,
}

/// A rule that a value must obey besides its type.
#[derive(Copy, Clone, PartialEq, Debug)]
pub(crate) enum Rule {
    Any,
    AtLeast(i64),
    /// Between both limits, inclusive.
    Between(i64, i64),
    /// Between both limits, or -1: Kafka's rule for compression.gzip.level.
    BetweenOrMinusOne(i64, i64),
    OneOf(&'static [&'static str]),
    /// `*`, or a list of `partition:node`.
    ThrottledReplicas,
    /// `earliest`, `latest`, or `by_duration:` with a duration of ISO 8601.
    OffsetReset,
}

#[derive(Copy, Clone, Debug)]
pub(crate) struct ConfigDef {
    pub(crate) name: &'static str,
    pub(crate) kind: ConfigType,
    pub(crate) rule: Rule,
    /// Kafka's default, used if this broker has no setting for the config.
    pub(crate) default: &'static str,
    /// The broker config that applies where this config is not set. Not every one of Kafka's is a setting of this
    /// broker.
    pub(crate) server: Option<&'static str>,
    /// True if the config has an effect here. Others are accepted, stored and described.
    pub(crate) effect: bool,
    pub(crate) documentation: &'static str,
}

impl ConfigDef {
    /// The value in the form in which Kafka prints it after parsing.
    ///
    /// # Errors
    /// Kafka's message for an invalid value.
    pub(crate) fn normalize(&self, value: &str) -> Result<String, String> {
        let trimmed = value.trim();
        match self.kind {
            ConfigType::Boolean => match trimmed.to_ascii_lowercase().as_str() {
                text @ ("true" | "false") => Ok(text.to_owned()),
                _ => Err(self.wrong(value, "Expected value to be either true or false")),
            },
            ConfigType::Int => self.integer(value, "INT", i32::MIN.into(), i32::MAX.into()),
            ConfigType::Short => self.integer(value, "SHORT", i16::MIN.into(), i16::MAX.into()),
            ConfigType::Long => self.integer(value, "LONG", i64::MIN, i64::MAX),
            ConfigType::Double => self.double(value),
            ConfigType::String => {
                self.check_text(trimmed, trimmed)?;
                Ok(trimmed.to_owned())
            }
            ConfigType::List => self.list(trimmed),
        }
    }

    fn integer(&self, value: &str, kind: &str, min: i64, max: i64) -> Result<String, String> {
        let number: Option<i64> = value.trim().parse().ok().filter(|number| (min..=max).contains(number));
        let number = number.ok_or_else(|| self.wrong(value, &format!("Not a number of type {kind}")))?;
        match self.rule {
            Rule::AtLeast(least) if number < least => Err(self.too_small(number, least)),
            Rule::Between(least, _) if number < least => Err(self.too_small(number, least)),
            Rule::Between(_, most) if number > most => {
                Err(self.wrong(number, &format!("Value must be no more than {most}")))
            }
            Rule::BetweenOrMinusOne(least, most) if number != -1 && !(least..=most).contains(&number) => {
                Err(self.wrong(number, &format!("Value must be between {least} and {most} or equal to -1")))
            }
            _ => Ok(number.to_string()),
        }
    }

    fn too_small(&self, value: impl fmt::Display, least: i64) -> String {
        self.wrong(value, &format!("Value must be at least {least}"))
    }

    fn double(&self, value: &str) -> Result<String, String> {
        let number: f64 = value.trim().parse().map_err(|_| self.wrong(value, "Not a number of type DOUBLE"))?;
        let text = format!("{number:?}");
        match self.rule {
            Rule::Between(least, _) if number < least as f64 => Err(self.too_small(text, least)),
            Rule::Between(_, most) if number > most as f64 => {
                Err(self.wrong(text, &format!("Value must be no more than {most}")))
            }
            _ => Ok(text),
        }
    }

    fn list(&self, value: &str) -> Result<String, String> {
        if value.is_empty() {
            return Ok(String::new());
        }
        let items: Vec<&str> = value.split(',').map(str::trim).collect();
        if items.iter().any(|item| item.is_empty()) {
            return Err(format!("Configuration '{}' values must not be empty.", self.name));
        }
        for item in &items {
            self.check_text(item, &format!("[{}]", items.join(", ")))?;
        }
        Ok(items.join(","))
    }

    fn check_text(&self, text: &str, whole: &str) -> Result<(), String> {
        match self.rule {
            Rule::OneOf(allowed) if !allowed.contains(&text) => {
                Err(self.wrong(text, &format!("String must be one of: {}", allowed.join(", "))))
            }
            Rule::OffsetReset if !matches!(text, "earliest" | "latest") && duration_ms(text).is_none() => {
                Err(self.wrong(text, "Must be earliest, latest or by_duration: with a duration such as PT1H"))
            }
            Rule::ThrottledReplicas if text != "*" && !is_replica(text) => {
                let form = "[partitionId]:[brokerId],[partitionId]:[brokerId],...";
                let rule = format!(
                    "{} must be the literal '*' or a list of replicas in the following format: {form}",
                    self.name
                );
                Err(self.wrong(whole, &rule))
            }
            _ => Ok(()),
        }
    }

    fn wrong(&self, value: impl fmt::Display, why: &str) -> String {
        format!("Invalid value {value} for configuration {}: {why}", self.name)
    }
}

/// The milliseconds of `by_duration:` with a duration of ISO 8601 in days, hours, minutes and seconds; `None` for
/// anything else.
pub(crate) fn duration_ms(value: &str) -> Option<i64> {
    let (days, time) = value.strip_prefix("by_duration:P").map(|text| text.split_once('T').unwrap_or((text, "")))?;
    let units = [(days, &[('D', 86_400_000.0)][..]), (time, &[('H', 3_600_000.0), ('M', 60_000.0), ('S', 1000.0)])];
    let (mut total_ms, mut any) = (0.0, false);
    for (mut rest, units) in units {
        for (unit, unit_ms) in units {
            let Some((number, behind)) = rest.split_once(*unit) else { continue };
            total_ms += number.parse::<f64>().ok().filter(|number| *number >= 0.0)? * unit_ms;
            (rest, any) = (behind, true);
        }
        if !rest.is_empty() {
            return None;
        }
    }
    any.then_some(total_ms as i64)
}

/// True if the text has the form `partition:node`.
fn is_replica(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once(':').is_some_and(|(partition, node)| is_number(partition) && is_number(node))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_iso_8601() {
        for (text, ms) in [("PT1H", 3_600_000), ("P1DT2M0.5S", 86_520_500), ("P2D", 172_800_000), ("PT0S", 0)] {
            assert_eq!(duration_ms(&format!("by_duration:{text}")), Some(ms), "{text}");
        }
        for text in ["by_duration:", "by_duration:P", "by_duration:PT", "by_duration:1H", "by_duration:PT1X", "latest"]
        {
            assert_eq!(duration_ms(text), None, "{text}");
        }
    }
}
