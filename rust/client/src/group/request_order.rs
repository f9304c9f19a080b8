//! The order of the member's requests. Each is sent by a task of its own, and tasks begin in any order; but a broker
//! has to get those to it, for one purpose, as they were made: a heartbeat that leaves, before the one that joins, is
//! refused, and the member that joins behind it stays in the group until its session ends, though nobody polls for it.

use std::collections::BTreeMap;

use monedula_engine::group::{ConnectionPurpose, Target};
use tokio::sync::oneshot;

/// The last request to each coordinator for each purpose.
#[derive(Default)]
pub(crate) struct RequestOrder(BTreeMap<(i32, ConnectionPurpose), oneshot::Receiver<()>>);

/// The turn of one request: it is over when the request was handed to its connection, or is not sent any more.
pub(crate) struct Turn {
    before: Option<oneshot::Receiver<()>>,
    over: TurnEnd,
}

pub(crate) struct TurnEnd(#[expect(dead_code, reason = "it is dropped")] oneshot::Sender<()>);

impl RequestOrder {
    pub(crate) fn next(&mut self, target: Target, purpose: ConnectionPurpose) -> Turn {
        let (over, is_over) = oneshot::channel();
        let before = match target {
            Target::Coordinator { node_id } => self.0.insert((node_id, purpose), is_over),
            // Each attempt goes to another broker.
            Target::Any { .. } => None,
        };
        Turn { before, over: TurnEnd(over) }
    }
}

impl Turn {
    /// Waits until the turns of all earlier requests are over.
    pub(super) async fn comes(self) -> TurnEnd {
        if let Some(before) = self.before {
            let _ = before.await;
        }
        self.over
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    const COORDINATOR: Target = Target::Coordinator { node_id: 1 };

    async fn polled<F: Future + Unpin>(future: &mut F) -> bool {
        std::future::poll_fn(|cx| Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx).is_ready())).await
    }

    #[tokio::test]
    async fn a_request_waits_until_the_one_before_is_handed_over_or_given_up() {
        let mut order = RequestOrder::default();
        let mut next = || order.next(COORDINATOR, ConnectionPurpose::Heartbeat);
        let (first, second, third) = (next(), next(), next());
        let mut second = pin!(second.comes());
        let mut third = pin!(third.comes());
        assert!(!polled(&mut third).await, "two are before it");
        assert!(!polled(&mut second).await, "one is before it");
        let over = first.comes().await;
        assert!(!polled(&mut second).await, "the first is being sent");
        drop(over);
        drop(second.await);
        drop(third.await);
    }

    #[tokio::test]
    async fn requests_to_other_nodes_or_for_other_purposes_do_not_wait() {
        let mut order = RequestOrder::default();
        let _first = order.next(COORDINATOR, ConnectionPurpose::Heartbeat);
        order.next(COORDINATOR, ConnectionPurpose::Offsets).comes().await;
        order.next(Target::Coordinator { node_id: 2 }, ConnectionPurpose::Heartbeat).comes().await;
        order.next(Target::Any { attempt: 0 }, ConnectionPurpose::Any).comes().await;
        order.next(Target::Any { attempt: 0 }, ConnectionPurpose::Any).comes().await;
    }
}
