//! The process of a member in the model: its own state, and the requests that it sends.

use super::*;
use crate::groups::{Leaver, SyncAnswer};

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Waits {
    #[default]
    No,
    ForJoin,
    ForSync,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Request {
    Join { id: Arc<str> },
    Sync { id: Arc<str>, generation: i32, assignments: Vec<(Arc<str>, u8)> },
}

/// An answer that is on its way to the process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Received {
    pub(super) error: ErrorCode,
    id: Arc<str>,
    generation: i32,
    view: Vec<Arc<str>>,
    pub(super) owned: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) running: bool,
    pub(super) waits: Waits,
    pub(super) id: Arc<str>,
    /// -1 if it must join.
    pub(super) generation: i32,
    /// The members that it assigns to, if it is the leader.
    pub(super) view: Vec<Arc<str>>,
    has_synced: bool,
    pub(super) owned: u8,
    pub(super) inbox: Option<Received>,
    /// A request that has not arrived yet.
    pub(super) late: Option<Request>,
}

impl Default for Process {
    fn default() -> Self {
        Self {
            running: false,
            waits: Waits::No,
            id: "".into(),
            generation: -1,
            view: Vec::new(),
            has_synced: false,
            owned: 0,
            inbox: None,
            late: None,
        }
    }
}

impl Received {
    pub(super) fn of_join(answer: &JoinAnswer) -> Self {
        let leads = answer.leader == answer.member_id && !answer.skip_assignment;
        let view = answer.members.iter().filter(|_| leads).map(|member| Arc::clone(&member.member_id)).collect();
        let (error, generation) = (answer.error, answer.generation_id);
        Self { error, id: Arc::clone(&answer.member_id), generation, view, owned: 0 }
    }

    pub(super) fn of_sync(answer: &SyncAnswer) -> Self {
        let owned = answer.assignment.first().copied().unwrap_or(0);
        Self { error: answer.error, id: "".into(), generation: -1, view: Vec::new(), owned }
    }
}

impl Process {
    pub(super) fn is_stable(&self) -> bool {
        self.running && self.has_synced
    }

    pub(super) fn can_sync(&self) -> bool {
        self.running && self.waits == Waits::No && self.generation >= 0 && !self.has_synced
    }

    /// All member ids that it refers to.
    pub(super) fn ids(&self) -> impl Iterator<Item = &Arc<str>> {
        let inbox = self.inbox.iter().flat_map(|received| received.view.iter().chain([&received.id]));
        let (late, assigned): (_, &[_]) = match &self.late {
            Some(Request::Join { id }) => (Some(id), &[]),
            Some(Request::Sync { id, assignments, .. }) => (Some(id), assignments),
            None => (None, &[]),
        };
        let known = [&self.id].into_iter().chain(&self.view).chain(late);
        known.chain(inbox).chain(assigned.iter().map(|(id, _)| id))
    }

    pub(super) fn relative(&self, relative: &impl Fn(i32) -> i32) -> Self {
        let mut process = self.clone();
        // -2 stands for no generation: `relative` returns -1 for an old one.
        let shown = |generation: i32| if generation < 0 { -2 } else { relative(generation) };
        process.generation = shown(self.generation);
        if let Some(received) = &mut process.inbox {
            received.generation = shown(received.generation);
        }
        if let Some(Request::Sync { generation, .. }) = &mut process.late {
            *generation = shown(*generation);
        }
        process
    }

    /// Resets the process to join with this id. As before each join, it revokes its partitions.
    fn begin_again(&mut self, id: Arc<str>) {
        let late = self.late.take();
        *self = Self { running: true, id, late, ..Self::default() };
    }

    pub(super) fn give_up(&mut self) {
        // The generation stays, so it may send the SyncGroup again.
        self.waits = Waits::No;
    }

    pub(super) fn receive(&mut self) -> Result<(), String> {
        let Some(received) = self.inbox.take() else { return Ok(()) };
        let waited = std::mem::take(&mut self.waits);
        match (received.error, waited) {
            (ErrorCode::None, Waits::ForJoin) => {
                (self.id, self.generation, self.view) = (received.id, received.generation, received.view);
            }
            (ErrorCode::None, _) => (self.has_synced, self.owned) = (true, received.owned),
            (ErrorCode::MemberIdRequired, _) => self.begin_again(received.id),
            // The process retries at the new coordinator.
            (ErrorCode::NotCoordinator, _) => {}
            (error, _) => self.refused(error)?,
        }
        Ok(())
    }

    fn refused(&mut self, error: ErrorCode) -> Result<(), String> {
        match error {
            ErrorCode::UnknownMemberId => self.begin_again("".into()),
            ErrorCode::IllegalGeneration | ErrorCode::RebalanceInProgress => self.begin_again(Arc::clone(&self.id)),
            // Another process with its instance id has replaced it: it ends.
            ErrorCode::FencedInstanceId => *self = Self { late: self.late.take(), ..Self::default() },
            error => return Err(format!("nobody should be answered {error:?}")),
        }
        Ok(())
    }
}

impl World {
    pub(super) fn send_join(&mut self, index: usize, delivery: Delivery) -> Result<(), String> {
        let process = &mut self.processes[index];
        process.begin_again(Arc::clone(&process.id));
        let request = Request::Join { id: Arc::clone(&process.id) };
        self.send(index, request, delivery, Waits::ForJoin)
    }

    pub(super) fn send_sync(&mut self, index: usize, variant: usize, delivery: Delivery) -> Result<(), String> {
        let process = &self.processes[index];
        let mut assignments: Vec<_> = process.view.iter().map(|id| (Arc::clone(id), 0_u8)).collect();
        let count = assignments.len();
        for partition in (0..self.layout.partitions).filter(|_| count > 0) {
            assignments[(partition + variant) % count].1 |= 1 << partition;
        }
        let request = Request::Sync { id: Arc::clone(&process.id), generation: process.generation, assignments };
        self.send(index, request, delivery, Waits::ForSync)
    }

    fn send(&mut self, index: usize, request: Request, delivery: Delivery, waits: Waits) -> Result<(), String> {
        if delivery != Delivery::Late {
            self.processes[index].waits = waits;
            self.work(index, &request, AWAITED)?;
        }
        if delivery != Delivery::Arrives {
            self.processes[index].late = Some(request);
        }
        Ok(())
    }

    pub(super) fn heartbeat(&mut self, index: usize) -> Result<(), String> {
        let process = &self.processes[index];
        let (id, generation_id) = (Arc::clone(&process.id), process.generation);
        let who = MemberIdentity { member_id: &id, instance_id: self.instance(index), generation_id };
        match self.group.heartbeat(0, who) {
            Ok(()) => Ok(()),
            Err(error) => self.processes[index].refused(error),
        }
    }

    pub(super) fn leave(&mut self, index: usize) -> Result<(), String> {
        let id = Arc::clone(&self.processes[index].id);
        // Stopping discards the answers that it awaits.
        self.stop(index);
        if id.is_empty() {
            return Ok(());
        }
        let leaver = Leaver { member_id: &id, instance_id: self.instance(index), reason: "" };
        let mut effects = Effects::default();
        // The process has ended, so the answer does not matter.
        let _ = self.group.leave(0, &[leaver], &mut effects);
        self.carry_out(effects)
    }

    /// Ends the process and clears its state. A late request of it may still arrive.
    pub(super) fn stop(&mut self, index: usize) {
        self.disown(index);
        let late = self.processes[index].late.take();
        self.processes[index] = Process { late, ..Process::default() };
    }
}
