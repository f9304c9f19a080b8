//! Faults on demand.

use monedula_protocol::error_code::ErrorCode;

use crate::api::Mentions;
use crate::core::Call;

/// What is to go wrong, and what is watched.
#[derive(Debug, Default)]
pub(crate) struct Faults {}

impl Faults {
    /// The error that the whole request is to be answered with, if a fault is set on it.
    pub(crate) fn before(&mut self, _call: &Call<'_>, _mentions: &Mentions<'_>) -> Option<ErrorCode> {
        None
    }

    /// The error that this partition is to be answered with, if a fault is set on it. Every API that answers for partitions
    /// one by one asks this for each, before it does anything with it.
    pub(crate) fn partition_error(&mut self, _call: &Call<'_>, _topic: &str, _partition: i32) -> Option<ErrorCode> {
        None
    }
}
