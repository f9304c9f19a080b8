//! Requests and answers on their way through the faults, and those that a fault lets go.

use monedula_protocol::error_code::ErrorCode;

use super::Core;
use crate::BrokerError;
use crate::faults::{HeldExchange, Stopped};
use crate::request::{Action, Answer, Call, Mentions};

impl Core {
    /// Applies the faults to a request before it is carried out. `refused` makes the answer with an error for the whole
    /// request. Returns its answer; `None` if it goes on.
    pub(crate) fn stopped(
        &mut self,
        call: &Call<'_>,
        mentions: &Mentions<'_>,
        refused: &dyn Fn(ErrorCode) -> Answer,
    ) -> Option<Answer> {
        let mut fetched = self.session_partitions(call.node, mentions.session);
        if let (&[group], Some(member)) = (&mentions.groups[..], mentions.member) {
            fetched.extend(self.share_session_partitions(call.node, group, member));
        }
        match self.faults.on_request(self.now_ms, call, mentions, (&self.topics, &fetched), refused)? {
            Stopped::Answered(answer) => Some(answer),
            Stopped::Acted(action) => {
                self.reply(call.ticket.connection, action);
                Some(Answer::Later)
            }
        }
    }

    /// Releases the requests and answers that a fault holds, and closes its black-holed connections. The fault stays
    /// set.
    ///
    /// # Errors
    /// [`BrokerError::Command`] if there is no such fault.
    pub(crate) fn release_fault(&mut self, id: u64) -> Result<(), BrokerError> {
        self.faults.hits(id)?;
        self.let_go(id);
        Ok(())
    }

    /// Removes a fault, and releases what it holds, as [`Core::release_fault`] does. Returns its hits.
    ///
    /// # Errors
    /// [`BrokerError::Command`] if there is no such fault.
    pub(crate) fn remove_fault(&mut self, id: u64) -> Result<u64, BrokerError> {
        let hits = self.faults.remove(id)?;
        self.let_go(id);
        Ok(hits)
    }

    fn let_go(&mut self, id: u64) {
        let (held, swallowed) = self.faults.let_go(id);
        for exchange in held {
            self.resume_exchange(exchange);
        }
        for connection in swallowed {
            self.reply(connection, Action::Close("the black hole that swallowed it is gone".to_owned()));
        }
    }

    /// Resumes the requests and answers whose delay is over.
    pub(super) fn tick_faults(&mut self) {
        while let Some(due) = self.faults.take_due(self.now_ms) {
            self.resume_exchange(due);
        }
        if self.faults.reveal(self.now_ms) {
            self.parked.all_changed();
            self.parked_share_fetches.all_changed();
        }
    }

    fn resume_exchange(&mut self, exchange: HeldExchange) {
        match exchange {
            HeldExchange::Request { fault, connection, origin, frame } => {
                self.faults.resume(Some(fault));
                self.work(connection, &origin, &frame);
                self.faults.resume(None);
            }
            HeldExchange::Answer { connection, action } => self.reply(connection, action),
        }
    }
}
