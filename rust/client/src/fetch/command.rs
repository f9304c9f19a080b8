//! Commands for the task that fetches.

use std::sync::Arc;

use monedula_engine::TopicPartition;
use monedula_engine::fetch::Start;

/// A command for the driver. Ids of readings come from the fetch buffer, which is changed before the command is sent.
#[derive(Clone, Debug)]
pub(crate) enum FetchCommand {
    Assign {
        /// Each with the id of its reading, where to start, and the exclusive end of a bounded read.
        partitions: Vec<(TopicPartition, u64, Start, Option<i64>)>,
        /// True if a group assigned them: it revokes them once their topic is gone.
        is_owned: bool,
    },
    /// All partitions of a topic, those added later too.
    AssignTopic {
        topic: Arc<str>,
        start: Position,
    },
    Unassign {
        partitions: Vec<TopicPartition>,
        topics: Vec<Arc<str>>,
    },
    Seek {
        partition: TopicPartition,
        reading_id: u64,
        start: Start,
    },
    /// All partitions of a topic that was assigned as a whole, before they were known.
    SeekTopic {
        topic: Arc<str>,
        start: Position,
    },
    Pause {
        partition: TopicPartition,
        paused: bool,
    },
    /// The records at `offset` cannot be decoded.
    Unreadable {
        partition: TopicPartition,
        reading_id: u64,
        offset: i64,
    },
}

/// Start of a partition that is assigned by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// This start.
    At(Start),
    /// The offset that the group of `group.id` has committed; where it has none, what `auto.offset.reset` says.
    Committed,
}

impl From<Start> for Position {
    fn from(start: Start) -> Self {
        Self::At(start)
    }
}
