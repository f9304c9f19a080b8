//! Schemas of a registry that speaks Confluent's API: asked for by id, in the background, and never twice.
//!
//! [`SchemaRegistry::ask`] does not block: a walk that meets an unknown id is told what to wait for. A few threads, which
//! live while there is something to ask, do the requests.

mod answers;
mod fetch;
mod http;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use monedula_columns::Awaited;

use self::answers::Answers;
use self::fetch::NoAnswer;
use self::http::Http;
pub(crate) use self::settings::registry;
use crate::lock::lock;
use crate::tasks::caught_now;

/// What a registry knows a schema by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SchemaKey {
    /// By its number.
    Id(u32),
    /// By its GUID.
    Guid(u128),
}

/// An Avro schema of a registry.
#[derive(Debug, PartialEq, Eq)]
pub struct RegisteredSchema {
    /// The schema as it was registered.
    pub text: String,
    /// The schemas that it refers to, each behind those that it refers to itself.
    pub references: Vec<String>,
}

/// What a registry answered.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The schema.
    Known(Arc<RegisteredSchema>),
    /// It is being asked for: [`Awaited::arrived`] is called when there is an answer.
    Awaits(Arc<Awaited>),
    /// There is no Avro schema with this key: why.
    Missing(String),
    /// The registry cannot be asked, or its answer cannot be used: why. Asking again may help.
    Failed(String),
}

/// A schema registry.
#[derive(Debug)]
pub struct SchemaRegistry {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    http: Http,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    answers: Answers,
    queue: VecDeque<SchemaKey>,
    threads: usize,
}

/// Most requests at a time.
const MAX_THREADS: usize = 4;

impl SchemaRegistry {
    fn new(http: Http) -> Self {
        Self { inner: Arc::new(Inner { http, state: Mutex::default() }) }
    }

    /// The schema with this key, or what to wait for. Never blocks.
    pub fn ask(&self, key: SchemaKey) -> Answer {
        let mut state = lock(&self.inner.state);
        if let Some(answer) = state.answers.get(key, Instant::now()) {
            return answer;
        }
        state.queue.push_back(key);
        if state.threads < MAX_THREADS {
            let inner = Arc::clone(&self.inner);
            let spawned = std::thread::Builder::new().name("monedula-registry".into()).spawn(move || inner.serve());
            state.threads += usize::from(spawned.is_ok());
            if state.threads == 0 {
                state.queue.clear();
                return Answer::Failed("the system grants no thread to ask the schema registry".into());
            }
        }
        let awaited = Arc::new(Awaited::default());
        state.answers.begin(key, Arc::clone(&awaited));
        Answer::Awaits(awaited)
    }
}

impl Inner {
    /// Asks for what is queued, until nothing is.
    fn serve(&self) {
        loop {
            let key = {
                let mut state = lock(&self.state);
                let Some(key) = state.queue.pop_front() else {
                    state.threads -= 1;
                    return;
                };
                key
            };
            // Whatever happens, who waits is told.
            let answer = caught_now(|| fetch::schema(&self.http, key))
                .unwrap_or_else(|reason| Err(NoAnswer::Failed(format!("the schema registry's answer: {reason}"))));
            let awaited = lock(&self.state).answers.end(key, answer, Instant::now());
            if let Some(awaited) = awaited {
                awaited.arrived();
            }
        }
    }
}
