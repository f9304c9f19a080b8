//! The types of config values.

/// Kafka's types of config values, with their codes in DescribeConfigs.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum ConfigType {
    Boolean = 1,
    String = 2,
    Int = 3,
    Short = 4,
    Long = 5,
    Double = 6,
    List = 7,
}
