//! The setting that decides how a cluster answers to what is used for the first time.

use std::str::FromStr;

/// The answers of a cluster at the first use of topics and coordinators.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum FirstUse {
    /// The request that creates a topic or the coordinators is told that they are not there yet, as in Kafka; the next
    /// one finds them.
    #[default]
    Once,
    /// They are there after the time that Kafka takes, which differs from node to node.
    Kafka,
}

impl FirstUse {
    /// The name of the option's value.
    pub fn name(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Kafka => "kafka",
        }
    }
}

impl FromStr for FirstUse {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Once, Self::Kafka];
        all.into_iter().find(|each| each.name() == text).ok_or_else(|| format!("{text:?} is neither once nor kafka"))
    }
}
