//! The task that owns the fetch machine: gives it answers, commands and time, and does what it says.

mod commands;
mod credit;
mod fetches;
mod list_offsets;

pub(crate) use fetches::ChargedFrame;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::cluster::Cluster;
use monedula_engine::fetch::{EpochEnd, Fault, FetchConfig, FetchMachine, Input, ListOffsetsAnswer, Output, Start};
use monedula_engine::{Now, TopicPartition};
use monedula_protocol::error_code::ErrorCode;
use tokio::sync::mpsc;

use crate::base::ClientBase;
use crate::budget::{Budget, Charge};
use crate::committed_starts::CommittedStarts;
use crate::error::{ClientError, RequestError};
use crate::fetch::buffer::FetchBuffer;
use crate::fetch::command::{FetchCommand, Position};
use crate::log::{Entry, kinds};
use crate::net::connection::Frame;
use crate::net::metadata::View;
use crate::reach::Reach;
use crate::run_time::{self, RunInstant};
use crate::tasks::caught;

/// Outcome of a task that waits for an answer.
enum Event {
    Fetched { node: i32, answer: Result<(Frame, i16), RequestError>, charge: Charge },
    ListedOffsets { answers: Vec<(TopicPartition, u64, Result<Option<ListOffsetsAnswer>, ErrorCode>)> },
    EpochEnds { answers: Vec<(TopicPartition, u64, Result<EpochEnd, ErrorCode>)> },
}

/// The parts that the driver works with.
pub(crate) struct Driver {
    pub(crate) base: ClientBase,
    pub(crate) starts: CommittedStarts,
    pub(crate) buffer: Arc<FetchBuffer>,
    pub(crate) budget: Budget,
    pub(crate) reach: Reach,
}

/// Lookups that the machine asked for, gathered over many inputs and then sent together, by partition: of two in a row,
/// such as an assignment and a seek right after it, only the later is asked. Brokers answer INVALID_REQUEST for a
/// partition that stands twice in a ListOffsets.
#[derive(Default)]
struct PendingLookups {
    metadata: bool,
    offsets: BTreeMap<TopicPartition, (u64, Start)>,
    log_ranges: BTreeMap<TopicPartition, u64>,
    /// With the epoch whose end is asked for.
    epoch_ends: BTreeMap<TopicPartition, (u64, i32)>,
}

struct Running {
    driver: Driver,
    machine: FetchMachine,
    started: RunInstant,
    cluster: Arc<Cluster>,
    events: mpsc::UnboundedSender<Event>,
    asked: PendingLookups,
    /// Topics assigned as a whole: their start, and true if their first partitions are assigned.
    topics: BTreeMap<Arc<str>, (Position, bool)>,
    /// Partitions of such topics that the driver added, with their readings.
    grown: BTreeMap<TopicPartition, u64>,
    /// True if a fetch waits for budget.
    starved: bool,
    /// True if the buffer was last told to hand out what is ready at once.
    flush: bool,
    /// Time at which a cluster that was not reached yet counts as unreachable.
    bootstrap_deadline: Option<RunInstant>,
    /// Nodes whose last fetch failed in a way that no repetition mends, until one succeeds or the user reads on
    /// elsewhere.
    refusing: BTreeMap<i32, ClientError>,
}

impl Driver {
    /// Runs until all senders of commands are gone. A panic is an error for every call from then on.
    pub(crate) async fn run(self, commands: mpsc::UnboundedReceiver<FetchCommand>, seed: u64) {
        let (buffer, log) = (self.buffer.clone(), self.base.log.clone());
        if let Err(reason) = caught(self.run_until_closed(commands, seed)).await {
            let error = ClientError::Internal(format!("the task that fetches ended: {reason}"));
            log.record(&kinds::FETCH_TASK_ENDED, || error.to_string());
            buffer.driver().set_fatal(Some(error));
        }
    }

    async fn run_until_closed(self, mut commands: mpsc::UnboundedReceiver<FetchCommand>, seed: u64) {
        let (events, mut inbox) = mpsc::unbounded_channel();
        let config = FetchConfig {
            reset: self.base.config.reset,
            max_wait: self.base.config.fetch_max_wait,
            max_partition_bytes: self.base.config.max_partition_fetch_bytes,
            preferred_replica_ttl: self.base.config.metadata_max_age,
            backoff: self.base.config.retry_backoff,
            propagation: self.base.config.propagation,
        };
        let mut view = self.base.metadata.watch();
        let (budget, buffer) = (self.budget.clone(), self.buffer.clone());
        let mut running = Running {
            driver: self,
            machine: FetchMachine::new(config, seed),
            started: RunInstant::now(),
            cluster: Arc::default(),
            events,
            asked: PendingLookups::default(),
            topics: BTreeMap::new(),
            grown: BTreeMap::new(),
            starved: false,
            flush: false,
            bootstrap_deadline: None,
            refusing: BTreeMap::new(),
        };
        loop {
            running.send_fetches();
            running.send_asked();
            let wake_at = running.wake_at();
            tokio::select! {
                command = commands.recv() => {
                    let Some(command) = command else { break };
                    running.command(command);
                    while let Ok(command) = commands.try_recv() {
                        running.command(command);
                    }
                }
                Some(event) = inbox.recv() => {
                    running.event(event);
                    while let Ok(event) = inbox.try_recv() {
                        running.event(event);
                    }
                }
                Ok(()) = view.changed() => {
                    let view = view.borrow_and_update().clone();
                    running.view(&view);
                }
                () = run_time::sleep_until(wake_at) => {
                    running.tick();
                }
                () = budget.freed(), if running.starved => {}
                () = budget.awaited() => {}
                () = buffer.driver().drained().notified(), if running.starved => {}
            }
        }
    }
}

impl Running {
    fn now(&self) -> Now {
        self.started.elapsed()
    }

    fn wake_at(&self) -> RunInstant {
        let now = self.now();
        let latest = now + Duration::from_secs(60);
        let at = self.started + self.machine.wake_at().unwrap_or(latest).min(latest);
        // The error of an unreachable cluster must come on time, even while an attempt to connect hangs.
        match self.bootstrap_deadline.filter(|&deadline| deadline > RunInstant::now()) {
            Some(deadline) => at.min(deadline + Duration::from_millis(1)),
            None => at,
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Fetched { node, answer, charge } => self.fetched(node, answer, charge),
            Event::ListedOffsets { answers } => {
                for (partition, reading_id, answer) in answers {
                    self.handle(Input::ListedOffset { partition: &partition, reading_id, answer });
                }
            }
            Event::EpochEnds { answers } => {
                for (partition, reading_id, answer) in answers {
                    self.handle(Input::EpochEnd { partition: &partition, reading_id, answer });
                }
            }
        }
    }

    fn view(&mut self, view: &View) {
        let failing = view.failing.as_ref().filter(|_| view.answers == 0);
        self.bootstrap_deadline = failing.map(|(since, _)| *since + self.driver.base.config.bootstrap_timeout);
        self.update_fatal();
        if self.adopt(&view.cluster) {
            self.grow();
        }
    }

    /// Takes a newer view of the cluster; false if it is the one that is known.
    fn adopt(&mut self, cluster: &Arc<Cluster>) -> bool {
        let newer = !Arc::ptr_eq(&self.cluster, cluster);
        if newer {
            self.cluster = cluster.clone();
            self.handle(Input::MetadataUpdate { cluster });
            self.note_leaders();
        }
        newer
    }

    /// A topic whose partitions have lost their leaders is not an idle one.
    fn note_leaders(&self) {
        let assigned = self.driver.buffer.status();
        let mut read = assigned.iter().filter(|(_, status)| !status.paused && status.fault.is_none()).peekable();
        let is_known = |partition| self.cluster.partition(partition).is_some();
        let has_leader = |partition| self.cluster.partition(partition).is_some_and(|known| known.leader.is_some());
        let leaderless =
            read.peek().is_some() && read.all(|(partition, _)| is_known(partition) && !has_leader(partition));
        self.driver.reach.set_leaderless(leaderless);
    }

    fn update_fatal(&self) {
        let unreachable = self.driver.base.metadata.unreachable(&self.driver.base.metadata.view());
        let refused = || self.refusing.values().next().cloned().or_else(|| self.driver.base.network.refusal());
        self.driver.buffer.driver().set_fatal(unreachable.or_else(refused));
    }

    fn tick(&mut self) {
        self.update_fatal();
        self.handle(Input::Tick);
    }

    /// Gives the machine an input and does what it says. What it asks for is sent by [`Self::send_asked`].
    fn handle(&mut self, input: Input<'_>) {
        self.machine.handle(self.now(), input);
        while let Some(output) = self.machine.poll() {
            self.act(output);
        }
    }

    fn act(&mut self, output: Output) {
        match output {
            Output::ListOffset { partition, reading_id, start } => {
                _ = self.asked.offsets.insert(partition, (reading_id, start))
            }
            Output::ListLogRange { partition, reading_id } => _ = self.asked.log_ranges.insert(partition, reading_id),
            Output::OffsetForLeaderEpoch { partition, reading_id, offset_epoch, .. } => {
                self.asked.epoch_ends.insert(partition, (reading_id, offset_epoch));
            }
            Output::RefreshMetadata => self.asked.metadata = true,
            // The hint comes back as a metadata update, through the watch on the cluster view.
            Output::LeaderHint { partition, leader, leader_epoch } => {
                self.driver.base.metadata.hint(&partition, leader, leader_epoch);
            }
            Output::Positioned { partition, reading_id, offset, moved_from } => {
                self.positioned(&partition, reading_id, offset, moved_from);
            }
            // Only answers bring records, and these are taken in `fetched`, where the answer is.
            Output::Fetched(_) => {}
            Output::Stopped { reading_id, fault } => self.stopped(reading_id, fault),
        }
    }

    fn send_asked(&mut self) {
        let PendingLookups { metadata, offsets, log_ranges, epoch_ends } = std::mem::take(&mut self.asked);
        if metadata {
            self.driver.base.metadata.want();
        }
        self.list_offsets(offsets);
        self.list_log_ranges(log_ranges);
        self.ask_epoch_ends(epoch_ends);
    }

    fn positioned(&self, partition: &TopicPartition, reading_id: u64, offset: i64, moved_from: Option<i64>) {
        if let Some(lost) = moved_from {
            self.driver.base.metrics.positions_lost(1);
            self.driver.base.log.record(&kinds::POSITION_RESET, || {
                let text = format!("{partition}: the log no longer holds offset {lost}; reading goes on at {offset}");
                Entry::new(text).partition(partition)
            });
        }
        self.driver.buffer.driver().positioned(partition, reading_id, offset);
    }

    fn stopped(&self, reading_id: u64, fault: Fault) {
        self.driver.base.log.record(&kinds::PARTITION_STOPPED, || {
            Entry::new(format!("stopped: {fault}")).partition(fault.partition()).code(fault.code())
        });
        let partition = fault.partition().clone();
        self.driver.buffer.driver().stopped(&partition, reading_id, fault.into());
    }
}
