//! What Kafka 4.4 checks of the settings of share groups when a broker starts (`ShareGroupConfig.validate`,
//! `GroupCoordinatorConfig.validate`).

use std::ops::RangeInclusive;

use super::KafkaSettings;
use crate::error::BrokerError;

/// Kafka's ranges of the default, the lower and the upper bound of each bounded config of share groups.
const RANGES: &[(&str, [RangeInclusive<i64>; 3])] = &[
    ("delivery.count.limit", [2..=10, 2..=5, 5..=25]),
    ("heartbeat.interval.ms", [1..=i64::MAX, 1..=i64::MAX, 1..=i64::MAX]),
    ("partition.max.record.locks", [100..=10_000, 100..=2000, 2000..=10_000]),
    ("record.lock.duration.ms", [1000..=3_600_000, 1000..=30_000, 30_000..=3_600_000]),
    ("session.timeout.ms", [1..=i64::MAX, 1..=i64::MAX, 1..=i64::MAX]),
];

impl KafkaSettings {
    /// Checks that the defaults of share groups are within their bounds, and all of these within Kafka's ranges.
    ///
    /// # Errors
    /// [`BrokerError::Setting`] for the first that is not.
    pub(crate) fn check_share_groups(&self) -> Result<(), BrokerError> {
        for (what, ranges) in RANGES {
            let names = ["", "min.", "max."].map(|which| format!("group.share.{which}{what}"));
            let [value, min, max] = names.each_ref().map(|name| self.number(name).unwrap_or_default());
            for ((name, number), range) in names.iter().zip([value, min, max]).zip(ranges) {
                if !range.contains(&number) {
                    let problem = format!("{number} is not between {} and {}", range.start(), range.end());
                    return Err(BrokerError::Setting { name: name.clone(), problem });
                }
            }
            let [name, lower, upper] = names;
            if value < min {
                let problem = format!("{value} must be greater than or equal to {lower}, which is {min}");
                return Err(BrokerError::Setting { name, problem });
            }
            if value > max {
                let problem = format!("{value} must be less than or equal to {upper}, which is {max}");
                return Err(BrokerError::Setting { name, problem });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(settings: &[(&str, &str)]) -> Result<(), String> {
        let mut kafka = KafkaSettings::default();
        settings.iter().for_each(|(name, value)| kafka.set(name, value).unwrap());
        kafka.check_share_groups().map_err(|error| error.to_string())
    }

    #[test]
    fn locks_are_as_long_as_kafka_allows() {
        let (lock, min) = ("group.share.record.lock.duration.ms", "group.share.min.record.lock.duration.ms");
        let max = "group.share.max.record.lock.duration.ms";
        assert_eq!(checked(&[]), Ok(()));
        assert_eq!(checked(&[(lock, "1000"), (min, "1000")]), Ok(()));
        assert_eq!(checked(&[(lock, "3600000"), (max, "3600000")]), Ok(()));
        assert_eq!(checked(&[(min, "999")]), Err(format!("{min}: 999 is not between 1000 and 30000")));
        assert_eq!(checked(&[(max, "29999")]), Err(format!("{max}: 29999 is not between 30000 and 3600000")));
        let problem = format!("{lock}: 14000 must be greater than or equal to {min}, which is 15000");
        assert_eq!(checked(&[(lock, "14000")]), Err(problem));
        let problem = format!("{lock}: 61000 must be less than or equal to {max}, which is 60000");
        assert_eq!(checked(&[(lock, "61000")]), Err(problem));
    }
}
