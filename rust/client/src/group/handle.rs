//! The user's side of a membership: commands to its task, its health, and its events for the hook.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use monedula_engine::Now;
use monedula_engine::TopicPartition;
use monedula_engine::assign::Assignor;
use monedula_engine::group::{GroupEvent, Member, consumer};
use monedula_engine::transaction::GroupMetadata;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::subscription::CompiledSubscription;
use super::task::Task;
use super::{CommitOffset, CommitOutcome, GroupFigures, GroupHealth, Listens};
use crate::base::ClientBase;
use crate::config::{ClientConfig, GroupProtocol};
use crate::error::ClientError;
use crate::fetch::buffer::{CommitCall, FetchBuffer};
use crate::lock::lock;
use crate::reach::Reach;

/// A command of the user's calls to the task.
pub(super) enum GroupCommand {
    Subscribe {
        subscription: CompiledSubscription,
        listens: Listens,
    },
    Commit {
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        deadline: Now,
        reply: oneshot::Sender<CommitOutcome>,
        call: CommitCall,
    },
    CalledBack {
        ticket: u64,
    },
    Rejoin {
        at: Now,
        reason: String,
    },
    Unsubscribe,
    Close {
        deadline: Now,
    },
    /// The user runs no more callbacks.
    Abandon,
}

pub(crate) struct MembershipParts {
    pub(crate) base: ClientBase,
    pub(crate) buffer: Arc<FetchBuffer>,
    pub(crate) reach: Reach,
    pub(crate) assignors: Vec<Arc<dyn Assignor>>,
    pub(crate) seed: u64,
}

/// A new member of the protocol of `group.protocol`, with KIP-848 first for `auto`.
fn first_member(parts: &MembershipParts) -> Member {
    match parts.base.config.group_protocol {
        GroupProtocol::Classic => Member::classic(parts.base.config.membership(parts.assignors.clone()), parts.seed),
        GroupProtocol::Consumer | GroupProtocol::Auto => {
            let member_id = consumer::member_id(random(parts.seed));
            Member::consumer(parts.base.config.consumer_membership(), member_id, parts.seed)
        }
    }
}

/// Randomness for the member id, which must be unique. The system seeds hash maps, but a forked process continues with
/// its parent's seeds, so the process id and the time are hashed too.
pub(crate) fn random(seed: u64) -> [u8; 16] {
    use std::hash::{BuildHasher, RandomState};
    let half =
        |half: u8| RandomState::new().hash_one((seed, std::process::id(), SystemTime::now(), half)).to_be_bytes();
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&half(0));
    bytes[8..].copy_from_slice(&half(1));
    bytes
}

/// State that the user's calls and the task share.
pub(crate) struct Shared {
    pub(super) started: Instant,
    pub(super) member: Mutex<Member>,
    pub(super) figures: Mutex<Figures>,
}

#[derive(Default)]
pub(crate) struct Figures {
    pub(crate) counted: GroupFigures,
    pub(crate) last_error: Option<(Instant, String)>,
    /// The subscribed topics that do not exist.
    pub(crate) unknown_topics: BTreeSet<Arc<str>>,
    /// The subscribed topics that the last answer did not know: too early to say that they do not exist.
    pub(super) doubtful_topics: BTreeSet<Arc<str>>,
    /// Time since which no topic matches the subscribed pattern.
    pub(super) unmatched_since: Option<Instant>,
    /// The reasons of the rebalance that ended last, and of the one in progress.
    rebalance_reason: Option<String>,
    rebalancing_for: Option<String>,
    /// Events that wait for the hook; `None` without one.
    events: Option<VecDeque<(SystemTime, GroupEvent)>>,
}

/// The handle of a membership; dropping it aborts the task.
pub(crate) struct Group {
    shared: Arc<Shared>,
    config: Arc<ClientConfig>,
    buffer: Arc<FetchBuffer>,
    commands: mpsc::UnboundedSender<GroupCommand>,
    pub(crate) task: Mutex<Option<JoinHandle<()>>>,
}

/// Reads the figures of a membership, without a share in its end.
pub(crate) struct GroupObserver(Arc<Shared>);

impl GroupObserver {
    pub(crate) fn figures(&self) -> GroupFigures {
        self.0.figures().counted.clone()
    }

    pub(crate) fn owned(&self) -> usize {
        self.0.member().status().owned.len()
    }
}

impl Group {
    pub(crate) fn observer(&self) -> GroupObserver {
        GroupObserver(self.shared.clone())
    }

    /// Starts the task, which is idle until the first subscription.
    pub(crate) fn start(parts: MembershipParts, runtime: &Handle) -> Self {
        let member = first_member(&parts);
        let shared =
            Arc::new(Shared { started: Instant::now(), member: Mutex::new(member), figures: Mutex::default() });
        let (config, buffer) = (parts.base.config.clone(), parts.buffer.clone());
        let (commands, inbox) = mpsc::unbounded_channel();
        let running = runtime.spawn(Task::new(parts, shared.clone()).run(inbox));
        let buffer_of_group = buffer.clone();
        let task = runtime.spawn(async move {
            // Without this, a task that panicked would leave the user's calls waiting for ever.
            if let Err(error) = Ended(running).wait().await
                && error.is_panic()
            {
                buffer_of_group
                    .group()
                    .raise(ClientError::Internal(format!("the task of the consumer group ended: {error}")), true);
                buffer_of_group.group().set_leaving(false);
            }
        });
        Self { shared, config, buffer, commands, task: Mutex::new(Some(task)) }
    }

    pub(crate) fn subscribe(&self, subscription: CompiledSubscription, listens: Listens) -> Result<(), ClientError> {
        self.command(GroupCommand::Subscribe { subscription, listens })
    }

    /// Revokes the owned partitions and leaves the group; [`FetchBuffer::leaving`] reports when that is done.
    pub(crate) fn unsubscribe(&self) -> Result<(), ClientError> {
        self.leave(GroupCommand::Unsubscribe)
    }

    /// Like [`Self::unsubscribe`], but final.
    pub(crate) fn close(&self, timeout: Duration) -> Result<(), ClientError> {
        self.leave(GroupCommand::Close { deadline: self.shared.now() + timeout })
    }

    fn leave(&self, order: GroupCommand) -> Result<(), ClientError> {
        self.buffer.group().set_leaving(true);
        // The task has ended, so there is nothing to wait for.
        self.command(order).inspect_err(|_| self.buffer.group().set_leaving(false))
    }

    /// Counts all pending and further callbacks as run, because the user runs none any more.
    pub(crate) fn abandon(&self) {
        // The task may have ended; then nothing waits for the callbacks.
        let _ = self.command(GroupCommand::Abandon);
    }

    /// Commits offsets as this member.
    pub(crate) fn commit(
        &self,
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        timeout: Duration,
        call: CommitCall,
    ) -> Result<oneshot::Receiver<CommitOutcome>, ClientError> {
        let (reply, outcome) = oneshot::channel();
        self.command(GroupCommand::Commit { offsets, deadline: self.shared.now() + timeout, reply, call })?;
        Ok(outcome)
    }

    pub(crate) fn called_back(&self, ticket: u64, failed: bool) {
        if self.buffer.group().called_back(ticket, failed) {
            self.shared.figures().counted.callbacks += 1;
            let _ = self.command(GroupCommand::CalledBack { ticket });
        }
    }

    pub(crate) fn rejoin(&self, reason: String, after: Duration) -> Result<(), ClientError> {
        self.command(GroupCommand::Rejoin { at: self.shared.now() + after, reason })
    }

    /// The present state and figures of the membership.
    pub(crate) fn health(&self) -> GroupHealth {
        let mut status = self.shared.member().status();
        let now = self.shared.now();
        let wanted = self.buffer.group().membership(|gate| gate.revocation_pending());
        let known = self.shared.figures();
        status.last_rebalance_reason = status.last_rebalance_reason.or_else(|| known.rebalance_reason.clone());
        let mut figures = known.counted.clone();
        figures.reserved = status.reserved.iter().map(|reserved| reserved.partitions.len()).sum();
        let reserved_until = status.reserved.iter().map(|reserved| reserved.until).max();
        figures.reserved_left = reserved_until.unwrap_or_default().saturating_sub(now);
        GroupHealth {
            group_id: self.config.group_id.clone().unwrap_or_default(),
            instance_id: self.config.group_instance_id.clone(),
            status,
            unknown_topics: known.unknown_topics.clone(),
            has_doubtful_topics: !known.doubtful_topics.is_empty(),
            unmatched: known.unmatched_since.map(|since| since.elapsed()),
            last_error: known.last_error.as_ref().map(|(at, error)| (at.elapsed(), error.clone())),
            wanted,
            figures,
            now,
        }
    }

    pub(crate) fn metadata(&self) -> GroupMetadata {
        let member = self.shared.member();
        let status = member.status();
        GroupMetadata {
            group: self.config.group_id.clone().unwrap_or_default(),
            generation: status.generation,
            member_id: status.member_id,
            instance_id: self.config.group_instance_id.clone(),
            topic_ids: member.topic_ids(),
        }
    }

    pub(crate) fn keep_events(&self, keep: bool) {
        self.shared.figures().keep_events(keep);
    }

    pub(crate) fn has_events(&self) -> bool {
        self.shared.figures().events.as_ref().is_some_and(|events| !events.is_empty())
    }

    pub(crate) fn take_events(&self) -> Vec<(SystemTime, GroupEvent)> {
        self.shared.figures().take_events()
    }

    fn command(&self, order: GroupCommand) -> Result<(), ClientError> {
        self.commands.send(order).map_err(|_| ClientError::Closed)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.task).take() {
            task.abort();
        }
    }
}

/// A task that is aborted when the future that waits for it is dropped.
struct Ended(JoinHandle<()>);

impl Ended {
    async fn wait(mut self) -> Result<(), tokio::task::JoinError> {
        (&mut self.0).await
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Shared {
    pub(super) fn now(&self) -> Now {
        self.started.elapsed()
    }

    pub(super) fn member(&self) -> MutexGuard<'_, Member> {
        lock(&self.member)
    }

    pub(super) fn figures(&self) -> MutexGuard<'_, Figures> {
        lock(&self.figures)
    }
}

impl Figures {
    /// Most events that wait: if nobody calls the hook, they must not fill the memory.
    const CAPACITY: usize = 1000;

    /// Keeps events for the hook from now on, or no more.
    pub(crate) fn keep_events(&mut self, keep: bool) {
        match keep {
            true => _ = self.events.get_or_insert_default(),
            false => self.events = None,
        }
    }

    /// The events since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<(SystemTime, GroupEvent)> {
        self.events.as_mut().map(std::mem::take).unwrap_or_default().into()
    }

    pub(crate) fn take(&mut self, event: GroupEvent) {
        self.counted.count(&event);
        self.keep_reasons(&event);
        if let Some(events) = &mut self.events {
            if events.len() == Self::CAPACITY {
                events.pop_front();
                self.counted.events_lost += 1;
            }
            events.push_back((SystemTime::now(), event));
        }
    }

    fn keep_reasons(&mut self, event: &GroupEvent) {
        match event {
            GroupEvent::Retried { api, reason } => {
                self.last_error = Some((Instant::now(), format!("{api}: {reason}")));
            }
            GroupEvent::RebalanceStarted { reason } => self.rebalancing_for = Some(reason.clone()),
            GroupEvent::Synced { .. } => self.rebalance_reason = self.rebalancing_for.take(),
            _ => {}
        }
    }
}
