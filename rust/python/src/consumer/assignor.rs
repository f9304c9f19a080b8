//! Assignors written in Python. The core sends their calls to a Python thread, which responds, so that no tokio thread
//! touches the interpreter.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_engine::assign::{
    AssignError, Assignment, Assignor, LastAssignment, MemberAssignment, MemberSubscription, Pace, Protocol, Topics,
    builtin_with, eager_beside_deferring,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::consumer::values::{PyPartition, py_partition, topic_partition};
use crate::error::config_error;
use crate::runtime::Own;
use monedula_client::blocking;
use monedula_client::lock::lock;

/// Longest time of an assignor for its user data. The JoinGroup request waits for it.
const SUBSCRIPTION_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest time of an assignor to assign. The whole group waits for it.
const ASSIGN_TIMEOUT: Duration = Duration::from_secs(60);

/// A member's assignment from Python: member id, partitions, user data.
type PyShare = (String, Vec<PyPartition>, Option<Vec<u8>>);

enum AssignorQuestion {
    Subscription { topics: Vec<String>, last: LastAssignment },
    Assign { topics: BTreeMap<String, usize>, members: Vec<MemberSubscription> },
}

enum AssignorAnswer {
    UserData(Option<Vec<u8>>),
    Shares(Vec<PyShare>),
}

type AssignorReply = Sender<Result<AssignorAnswer, String>>;

struct Job {
    name: Arc<str>,
    question: AssignorQuestion,
    reply: AssignorReply,
}

/// The assignors of a consumer, in order: built-in ones by name, and those written in Python, whose calls go to the
/// desk.
pub(crate) fn assignors(
    py: Python<'_>,
    strategy: Vec<(String, Option<bool>)>,
    pace: Pace,
) -> PyResult<(Vec<Arc<dyn Assignor>>, AssignorDesk)> {
    let (jobs, inbox) = channel();
    let made = strategy.into_iter().map(|(name, own)| -> PyResult<Arc<dyn Assignor>> {
        match own {
            Some(cooperative) => {
                let protocol = if cooperative { Protocol::Cooperative } else { Protocol::Eager };
                Ok(Arc::new(PyAssignor { name: name.into(), protocol, jobs: jobs.clone() }))
            }
            None => builtin_with(&name, pace).ok_or_else(|| {
                let message = format!("assignors: there is no built-in assignor {name:?}");
                config_error(py, "partition.assignment.strategy", message)
            }),
        }
    });
    let made = made.collect::<PyResult<Vec<_>>>()?;
    if let Some(message) = eager_beside_deferring(&made) {
        return Err(config_error(py, "partition.assignment.strategy", format!("assignors: {message}")));
    }
    let desk = AssignorDesk { state: Own::new(Desk { inbox: Mutex::new(inbox), open: Mutex::default() }) };
    Ok((made, desk))
}

struct PyAssignor {
    name: Arc<str>,
    protocol: Protocol,
    jobs: Sender<Job>,
}

impl PyAssignor {
    fn ask(&self, question: AssignorQuestion, timeout: Duration) -> Result<AssignorAnswer, String> {
        let (reply, answer) = channel();
        let job = Job { name: self.name.clone(), question, reply };
        self.jobs.send(job).map_err(|_| "its thread has ended".to_owned())?;
        // Heartbeats continue: tokio moves the other tasks of this runtime thread to another thread.
        blocking::in_place(|| answer.recv_timeout(timeout))
            .unwrap_or_else(|_| Err(format!("it did not answer within {} s", timeout.as_secs())))
    }
}

impl Assignor for PyAssignor {
    fn name(&self) -> &str {
        &self.name
    }

    fn protocol(&self) -> Protocol {
        self.protocol
    }

    fn user_data(&self, topics: &BTreeSet<Arc<str>>, last: &LastAssignment) -> Option<Vec<u8>> {
        let topics = topics.iter().map(ToString::to_string).collect();
        // On a failure the subscription has no user data, so that the leader treats this as a new member; Python has
        // logged it.
        match self.ask(AssignorQuestion::Subscription { topics, last: last.clone() }, SUBSCRIPTION_TIMEOUT) {
            Ok(AssignorAnswer::UserData(data)) => data,
            _ => None,
        }
    }

    fn assign(&self, topics: &Topics, members: &[MemberSubscription]) -> Result<Assignment, AssignError> {
        let topics = topics.iter().map(|(name, partitions)| (name.to_string(), partitions.len())).collect();
        let failed = |reason| AssignError::Failed { assignor: self.name.to_string(), reason };
        match self
            .ask(AssignorQuestion::Assign { topics, members: members.to_vec() }, ASSIGN_TIMEOUT)
            .map_err(failed)?
        {
            AssignorAnswer::Shares(shares) => Ok(shares.into_iter().map(share).collect()),
            AssignorAnswer::UserData(_) => Err(failed("it answered another question".into())),
        }
    }
}

fn share((member_id, partitions, user_data): PyShare) -> (String, MemberAssignment) {
    let partitions = partitions.into_iter().map(topic_partition).collect();
    (member_id, MemberAssignment { partitions, user_data })
}

struct Desk {
    inbox: Mutex<Receiver<Job>>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    last: u64,
    /// Calls by their numbers: true if one is for an assignment, and the channel for its result.
    replies: BTreeMap<u64, (bool, AssignorReply)>,
}

/// A call for Python: number, name of the assignor, "subscription" or "assign", arguments.
type PyJob<'py> = (u64, String, &'static str, Bound<'py, PyAny>);

/// The desk from which Python's thread takes the calls of its assignors; see `monedula.assignors`.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct AssignorDesk {
    state: Own<Desk>,
}

#[pymethods]
impl AssignorDesk {
    /// Waits for the next call; `None` when the consumer is dropped.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<PyJob<'py>>> {
        let desk = self.state.get()?;
        let job = py.detach(|| lock(&desk.inbox).recv().ok());
        let Some(Job { name, question, reply }) = job else { return Ok(None) };
        let mut open = lock(&desk.open);
        open.last += 1;
        let number = open.last;
        open.replies.insert(number, (matches!(question, AssignorQuestion::Assign { .. }), reply));
        drop(open);
        let (kind, arguments) = match question {
            AssignorQuestion::Subscription { topics, last } => {
                let user_data = last.user_data.map(|data| PyBytes::new(py, &data));
                let arguments = (topics, partitions(last.partitions), last.generation, user_data);
                ("subscription", arguments.into_pyobject(py)?.into_any())
            }
            AssignorQuestion::Assign { topics, members } => {
                let members: Vec<_> = members.into_iter().map(|each| member(py, each)).collect();
                ("assign", (topics, members).into_pyobject(py)?.into_any())
            }
        };
        Ok(Some((number, name.to_string(), kind, arguments)))
    }

    fn answer(&self, number: u64, answer: &Bound<'_, PyAny>) -> PyResult<()> {
        let Some((assigns, reply)) = self.take(number)? else { return Ok(()) };
        let answer = match assigns {
            true => answer.extract().map(AssignorAnswer::Shares),
            false => answer.extract().map(AssignorAnswer::UserData),
        };
        // Fails if the response comes after the timeout, when nothing waits for it.
        let _ = reply.send(answer.map_err(|error| error.to_string()));
        Ok(())
    }

    fn fail(&self, number: u64, reason: String) -> PyResult<()> {
        if let Some((_, reply)) = self.take(number)? {
            let _ = reply.send(Err(reason));
        }
        Ok(())
    }
}

impl AssignorDesk {
    fn take(&self, number: u64) -> PyResult<Option<(bool, AssignorReply)>> {
        Ok(lock(&self.state.get()?.open).replies.remove(&number))
    }
}

fn partitions(given: impl IntoIterator<Item = TopicPartition>) -> Vec<PyPartition> {
    given.into_iter().map(py_partition).collect()
}

/// A member: member id, group instance id, topics, owned partitions, generation, rack, user data.
type PyMember<'py> =
    (String, Option<String>, Vec<String>, Vec<PyPartition>, i32, Option<String>, Option<Bound<'py, PyBytes>>);

fn member(py: Python<'_>, member: MemberSubscription) -> PyMember<'_> {
    let topics = member.topics.iter().map(ToString::to_string).collect();
    let user_data = member.user_data.map(|data| PyBytes::new(py, &data));
    let owned = partitions(member.owned);
    (member.member_id, member.instance_id, topics, owned, member.generation, member.rack, user_data)
}
