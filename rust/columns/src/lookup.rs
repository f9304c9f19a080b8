//! Lookups that never block, such as of a schema at a registry.

use std::fmt;
use std::sync::Arc;

use crate::awaited::Awaited;
use crate::typed::BadValue;

/// State of a lookup.
#[derive(Clone, Debug)]
pub enum Lookup<T> {
    /// Answer.
    Ready(T),
    /// Request on its way; [`Awaited::arrived`] is called when there is an answer or none is to be had.
    Pending(Arc<Awaited>),
    /// No answer, and why. That is not the fault of a value which needs one, and another request may succeed.
    Unavailable(String),
}

impl<T> Lookup<T> {
    /// Applies `map` to the answer.
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Lookup<U> {
        match self {
            Self::Ready(answer) => Lookup::Ready(map(answer)),
            Self::Pending(awaited) => Lookup::Pending(awaited),
            Self::Unavailable(why) => Lookup::Unavailable(why),
        }
    }
}

impl From<BadValue> for Lookup<BadValue> {
    fn from(bad: BadValue) -> Self {
        Self::Ready(bad)
    }
}

impl<T: fmt::Display> fmt::Display for Lookup<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(answer) => write!(formatter, "{answer}"),
            Self::Pending(_) => formatter.write_str("its schema is being asked for"),
            Self::Unavailable(why) => formatter.write_str(why),
        }
    }
}
