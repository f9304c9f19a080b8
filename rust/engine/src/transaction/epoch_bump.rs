//! A producer's next epoch, which it takes when it is not known which sequence numbers are in the log (KIP-360).

use super::SessionState;
use super::session::ProducerSession;
use crate::produce::ProducerIdentity;

impl ProducerSession {
    /// Without a `transactional.id` no other producer has this producer id, so the next epoch needs no request
    /// (KIP-360).
    pub(super) fn bump_epoch_locally(&mut self, identity: ProducerIdentity) {
        match identity.epoch.checked_add(1) {
            Some(epoch) => self.take_identity(ProducerIdentity { epoch, ..identity }),
            // The epochs of this producer id are used up: get another id.
            None => self.enter(SessionState::Initializing),
        }
    }

    /// Has the epoch bumped, since it is unknown which sequence numbers are in the log (KIP-360).
    pub(super) fn require_epoch_bump(&mut self) {
        match self.state {
            SessionState::Ready => {
                self.epoch_bump_required = true;
                self.enter(SessionState::Initializing);
            }
            // The transaction's records are all in the log, and it may be committed already.
            SessionState::Committing if self.contents.end_sent => self.epoch_bump_required = true,
            SessionState::InTransaction | SessionState::Committing => {
                self.epoch_bump_required = true;
                self.must_abort("it is not known which records were written".into());
            }
            SessionState::AbortableError | SessionState::Aborting => self.epoch_bump_required = true,
            SessionState::Uninitialized | SessionState::Initializing | SessionState::Fatal => {}
        }
    }
}
