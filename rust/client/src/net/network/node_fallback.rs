//! Asking one node after the other until one answers.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use super::{Network, NodeId};
use crate::run_time;

/// Time after which a silent node is waited for together with the next one.
const SLOW: Duration = Duration::from_secs(1);

type PendingAnswer<'a, T> = (NodeId, Pin<Box<dyn Future<Output = T> + Send + 'a>>);

/// Nodes of which any may answer. The next is asked when one has failed, or has been silent for [`SLOW`]: none keeps
/// the caller waiting for its whole time-out while others could answer.
pub(crate) struct NodeFallback<'a, T> {
    waiting: VecDeque<NodeId>,
    asked: Vec<PendingAnswer<'a, T>>,
}

impl<'a, T> NodeFallback<'a, T> {
    pub(crate) fn new(nodes: impl IntoIterator<Item = NodeId>) -> Self {
        Self { waiting: nodes.into_iter().collect(), asked: Vec::new() }
    }

    /// The next outcome, of whichever node; `None` once each has had its own.
    pub(crate) async fn next<F>(&mut self, ask: impl Fn(NodeId) -> F) -> Option<(NodeId, T)>
    where
        F: Future<Output = T> + Send + 'a,
    {
        self.ask_next(&ask);
        while !self.asked.is_empty() {
            tokio::select! {
                biased;
                ended = ended(&mut self.asked) => return Some(ended),
                () = run_time::sleep(SLOW), if !self.waiting.is_empty() => self.ask_next(&ask),
            }
        }
        None
    }

    /// The next outcome of those that were asked; no other is asked.
    async fn ended(&mut self) -> Option<(NodeId, T)> {
        if self.asked.is_empty() { None } else { Some(ended(&mut self.asked).await) }
    }

    /// Waits no longer for nodes of which `keep` is false, and does not ask them.
    pub(crate) fn retain(&mut self, keep: impl Fn(NodeId) -> bool) {
        self.waiting.retain(|node| keep(*node));
        self.asked.retain(|(node, _)| keep(*node));
    }

    fn ask_next<F>(&mut self, ask: impl Fn(NodeId) -> F)
    where
        F: Future<Output = T> + Send + 'a,
    {
        if let Some(node) = self.waiting.pop_front() {
            self.asked.push((node, Box::pin(ask(node))));
        }
    }
}

impl Network {
    /// Answer of the n-th of the known brokers and bootstrap addresses, or of one behind it if that is silent. The
    /// first failure counts where no other had to be asked. `None` if no broker is known.
    pub(crate) async fn any_of<'a, T, E, F>(&self, attempt: u32, ask: impl Fn(NodeId) -> F) -> Option<Result<T, E>>
    where
        F: Future<Output = Result<T, E>> + Send + 'a,
    {
        let mut nodes = self.candidates_from(0);
        let turn = (attempt as usize).checked_rem(nodes.len())?;
        nodes.rotate_left(turn);
        let mut nodes = NodeFallback::new(nodes);
        let (_, mut outcome) = nodes.next(&ask).await?;
        // Others are in flight because this one was silent, and may still answer.
        while outcome.is_err()
            && let Some((_, other)) = nodes.ended().await
        {
            outcome = other;
        }
        Some(outcome)
    }
}

/// The first of them that ends; it is removed.
async fn ended<T>(asked: &mut Vec<PendingAnswer<'_, T>>) -> (NodeId, T) {
    poll_fn(|context| {
        for index in 0..asked.len() {
            let (node, answer) = &mut asked[index];
            if let Poll::Ready(outcome) = answer.as_mut().poll(context) {
                let node = *node;
                drop(asked.swap_remove(index));
                return Poll::Ready((node, outcome));
            }
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn outcome(node: NodeId) -> Result<(), ()> {
        match node {
            NodeId::Broker(2) => Ok(()),
            NodeId::Broker(_) => std::future::pending().await,
            NodeId::Bootstrap(_) => Err(()),
        }
    }

    #[tokio::test]
    async fn silent_nodes_do_not_keep_the_next_from_being_asked() {
        let mut nodes = NodeFallback::new([NodeId::Broker(1), NodeId::Broker(3), NodeId::Broker(2)]);
        assert_eq!(nodes.next(outcome).await, Some((NodeId::Broker(2), Ok(()))));
    }

    #[tokio::test]
    async fn each_failure_is_told_once() {
        let mut nodes = NodeFallback::new([0, 1].map(NodeId::Bootstrap));
        assert_eq!(nodes.next(outcome).await, Some((NodeId::Bootstrap(0), Err(()))));
        assert_eq!(nodes.next(outcome).await, Some((NodeId::Bootstrap(1), Err(()))));
        assert_eq!(nodes.next(outcome).await, None);
    }
}
