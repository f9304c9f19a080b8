//! Mentions of a request: the groups, topics and partitions that it names.

use monedula_protocol::types::Uuid;

/// The groups, transactional id, topics and partitions that a request names. Faults and observers select requests by
/// them.
#[derive(Debug, Default)]
pub(crate) struct Mentions<'a> {
    pub(crate) groups: Vec<&'a str>,
    pub(crate) transactional_id: Option<&'a str>,
    pub(crate) partitions: Vec<(TopicKey<'a>, i32)>,
    /// Topics that the request names without partitions.
    pub(crate) topics: Vec<TopicKey<'a>>,
    /// The fetch session (KIP-227) that the request continues, whose partitions are selected too; 0 for none.
    pub(crate) session: i32,
    /// The member of the share group among `groups` whose session the request continues, with its partitions.
    pub(crate) member: Option<&'a str>,
    /// True if the client expects no response (acks=0), so that an error closes the connection instead.
    pub(crate) unanswered: bool,
}

/// A topic as a request identifies it: by name or by id.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum TopicKey<'a> {
    Name(&'a str),
    Id(Uuid),
}

impl<'a> TopicKey<'a> {
    /// Takes the id unless it is zero: a version of a request has either names or ids.
    pub(crate) fn new(name: &'a str, id: Uuid) -> Self {
        if id.is_zero() { Self::Name(name) } else { Self::Id(id) }
    }
}
