//! What goes wrong in an exchange, without a word of what was secret in it.

use super::Mechanism;
use super::scram::{MAX_ITERATIONS, MIN_ITERATIONS};

/// An exchange that cannot go on. None of its texts holds a secret, a nonce or a signature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SaslError {
    /// Bytes that are not a message of the mechanism at this place of the exchange.
    #[error("{mechanism}: {problem}")]
    Malformed {
        /// The mechanism.
        mechanism: Mechanism,
        /// What is wrong with them.
        problem: &'static str,
    },
    /// User name, password, token or extension that the mechanism cannot carry.
    #[error("{mechanism}: {problem}")]
    Credentials {
        /// The mechanism.
        mechanism: Mechanism,
        /// What is wrong with them.
        problem: &'static str,
    },
    /// A nonce that does not extend the client's: a replay, or an answer for someone else.
    #[error("{mechanism}: the server's nonce does not begin with the client's, or adds nothing to it")]
    ForeignNonce {
        /// The mechanism.
        mechanism: Mechanism,
    },
    /// SCRAM's `m=`, which says that the exchange has a meaning that this side does not know.
    #[error("{mechanism}: the other side demands an extension (m=) that is not known here")]
    MandatoryExtension {
        /// The mechanism.
        mechanism: Mechanism,
    },
    /// Too few iterations to protect the password, or so many that they serve to occupy the client.
    #[error(
        "{mechanism}: the server demands {iterations} iterations; {MIN_ITERATIONS} to {MAX_ITERATIONS} are accepted"
    )]
    Iterations {
        /// The mechanism.
        mechanism: Mechanism,
        /// The demanded number, or `u64::MAX` if it is larger.
        iterations: u64,
    },
    /// The server does not know the password either: it is not the server that it claims to be.
    #[error(
        "{mechanism}: the server's signature is wrong; it does not know the password, so it may not be the broker that it \
         claims to be"
    )]
    ServerSignature {
        /// The mechanism.
        mechanism: Mechanism,
    },
    /// The other side says no.
    #[error("{mechanism}: refused: {reason}")]
    Refused {
        /// The mechanism.
        mechanism: Mechanism,
        /// The other side's words.
        reason: String,
    },
    /// A message after the last one of the exchange, or out of turn.
    #[error("{mechanism}: a message after the exchange has ended")]
    Ended {
        /// The mechanism.
        mechanism: Mechanism,
    },
}
