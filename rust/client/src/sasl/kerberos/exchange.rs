//! The messages of one login (RFC 4752, 3.1): tokens until the context stands, then one word about what protects the
//! messages after the login, which is nothing: that is for TLS.

use monedula_gssapi::{Context, GssError, Initiated};

/// Operations of a context that the exchange needs.
pub(super) trait SecurityContext {
    fn initiate(&mut self, token: &[u8]) -> Result<Initiated, GssError>;
    fn unwrap(&mut self, message: &[u8]) -> Result<Vec<u8>, GssError>;
    fn wrap(&mut self, content: &[u8]) -> Result<Vec<u8>, GssError>;
}

impl SecurityContext for Context {
    fn initiate(&mut self, token: &[u8]) -> Result<Initiated, GssError> {
        Self::initiate(self, token)
    }

    fn unwrap(&mut self, message: &[u8]) -> Result<Vec<u8>, GssError> {
        Self::unwrap(self, message)
    }

    fn wrap(&mut self, content: &[u8]) -> Result<Vec<u8>, GssError> {
        Self::wrap(self, content)
    }
}

/// Reason that an exchange cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExchangeError {
    Library(GssError),
    /// Message of the broker that has no place here.
    Broker(&'static str),
}

impl From<GssError> for ExchangeError {
    fn from(error: GssError) -> Self {
        Self::Library(error)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Send(Vec<u8>),
    Done,
}

/// Services answer with some hundred bytes; the tickets, which are large, go the other way.
const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// The bit of the offer that says: no protection.
const NO_LAYER: u8 = 1;

/// Choice from the offer: no protection, and so no size of protected messages. No authorization id follows, so the
/// broker takes the principal of the ticket (RFC 4752, 3.1), the name that Java's client sends.
const CHOICE: [u8; 4] = [NO_LAYER, 0, 0, 0];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExchangeState {
    /// The context does not stand yet.
    Initiating,
    /// The context stands; the broker's offer comes next.
    Offered,
    /// The choice was sent.
    Chosen,
    Ended,
}

pub(super) struct Exchange<C> {
    context: C,
    state: ExchangeState,
}

impl<C: SecurityContext> Exchange<C> {
    /// Begins; returns the first message with it.
    pub(super) fn start(mut context: C) -> Result<(Self, Vec<u8>), ExchangeError> {
        let Initiated { token, is_complete } = context.initiate(&[])?;
        // A context cannot be complete yet: the broker has not proved who it is.
        if is_complete {
            return Err(ExchangeError::Broker("the library takes the broker's word for who it is"));
        }
        Ok((Self { context, state: ExchangeState::Initiating }, token))
    }

    /// Takes the broker's message.
    pub(super) fn step(&mut self, message: &[u8]) -> Result<Next, ExchangeError> {
        if message.len() > MAX_MESSAGE_BYTES {
            self.state = ExchangeState::Ended;
            return Err(ExchangeError::Broker("the broker's message is larger than any of GSSAPI"));
        }
        // An error leaves no way to go on.
        match std::mem::replace(&mut self.state, ExchangeState::Ended) {
            ExchangeState::Initiating => {
                let Initiated { token, is_complete } = self.context.initiate(message)?;
                self.state = if is_complete { ExchangeState::Offered } else { ExchangeState::Initiating };
                // An empty one asks for the offer.
                Ok(Next::Send(token))
            }
            ExchangeState::Offered => {
                let offer = self.context.unwrap(message)?;
                check_offer(&offer)?;
                let choice = self.context.wrap(&CHOICE)?;
                self.state = ExchangeState::Chosen;
                Ok(Next::Send(choice))
            }
            // The broker's error code says the rest.
            ExchangeState::Chosen => Ok(Next::Done),
            ExchangeState::Ended => {
                Err(ExchangeError::Broker("the broker sent a message after the exchange has ended"))
            }
        }
    }
}

/// The offer is a byte of bits and three of the size of protected messages. RFC 4752 wants a size of 0 where no
/// protection is offered, but Java's brokers name 65,536 all the same, so the size is not looked at.
fn check_offer(offer: &[u8]) -> Result<(), ExchangeError> {
    match offer {
        [layers, _, _, _] if layers & NO_LAYER != 0 => Ok(()),
        [_, _, _, _] => Err(ExchangeError::Broker(
            "the broker demands that GSSAPI protects all messages, which Kafka has no place for",
        )),
        _ => Err(ExchangeError::Broker("the broker's offer of protection does not have four bytes")),
    }
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
