//! The rules of the messages, with a context that does what the test says.

use std::collections::VecDeque;

use monedula_gssapi::Failure;

use super::*;

/// One call that is expected, and its result.
#[derive(Clone, Debug)]
enum Call {
    Initiate(Vec<u8>, Result<Initiated, GssError>),
    Unwrap(Vec<u8>, Result<Vec<u8>, GssError>),
    Wrap(Vec<u8>, Result<Vec<u8>, GssError>),
}

struct Script(VecDeque<Call>);

impl SecurityContext for Script {
    fn initiate(&mut self, token: &[u8]) -> Result<Initiated, GssError> {
        match self.0.pop_front() {
            Some(Call::Initiate(expected, result)) if expected == token => result,
            other => panic!("initiate({token:?}) instead of {other:?}"),
        }
    }

    fn unwrap(&mut self, message: &[u8]) -> Result<Vec<u8>, GssError> {
        match self.0.pop_front() {
            Some(Call::Unwrap(expected, result)) if expected == message => result,
            other => panic!("unwrap({message:?}) instead of {other:?}"),
        }
    }

    fn wrap(&mut self, content: &[u8]) -> Result<Vec<u8>, GssError> {
        match self.0.pop_front() {
            Some(Call::Wrap(expected, result)) if expected == content => result,
            other => panic!("wrap({content:?}) instead of {other:?}"),
        }
    }
}

fn initiate(challenge: &[u8], token: &[u8], is_complete: bool) -> Call {
    Call::Initiate(challenge.to_vec(), Ok(Initiated { token: token.to_vec(), is_complete }))
}

fn no() -> GssError {
    let message = "no".to_owned();
    GssError::Failed(Failure { call: "gss_unwrap", major: 6 << 16, minor: 0, message })
}

fn start(calls: impl IntoIterator<Item = Call>) -> (Exchange<Script>, Vec<u8>) {
    let calls = [initiate(b"", b"ticket", false)].into_iter().chain(calls);
    Exchange::start(Script(calls.collect())).unwrap_or_else(|error| panic!("{error:?}"))
}

/// After the broker has proved who it is: `offer` is what it wrapped.
fn offered(offer: &[u8], calls: impl IntoIterator<Item = Call>) -> Result<Next, ExchangeError> {
    let first = [initiate(b"proof", b"", true), Call::Unwrap(b"wrapped".to_vec(), Ok(offer.to_vec()))];
    let (mut exchange, _) = start(first.into_iter().chain(calls));
    assert_eq!(exchange.step(b"proof"), Ok(Next::Send(Vec::new())));
    exchange.step(b"wrapped")
}

fn choice() -> Call {
    Call::Wrap(vec![1, 0, 0, 0], Ok(b"choice".to_vec()))
}

#[test]
fn a_login_sends_the_ticket_asks_for_the_offer_and_chooses_no_layer() {
    let (mut exchange, first) =
        start([initiate(b"proof", b"", true), Call::Unwrap(b"offer".to_vec(), Ok(vec![1, 1, 0, 0])), choice()]);
    assert_eq!(first, b"ticket");
    assert_eq!(exchange.step(b"proof"), Ok(Next::Send(Vec::new())));
    assert_eq!(exchange.step(b"offer"), Ok(Next::Send(b"choice".to_vec())));
    assert_eq!(exchange.step(b""), Ok(Next::Done));
    assert!(exchange.context.0.is_empty());
}

#[test]
fn tokens_go_to_and_fro_until_the_context_stands() {
    let (mut exchange, _) = start([
        initiate(b"a", b"b", false),
        initiate(b"c", b"d", true),
        Call::Unwrap(b"offer".to_vec(), Ok(vec![7, 0, 255, 255])),
        choice(),
    ]);
    assert_eq!(exchange.step(b"a"), Ok(Next::Send(b"b".to_vec())));
    assert_eq!(exchange.step(b"c"), Ok(Next::Send(b"d".to_vec())));
    assert_eq!(exchange.step(b"offer"), Ok(Next::Send(b"choice".to_vec())));
}

#[test]
fn the_size_that_java_offers_without_a_layer_is_taken() {
    assert_eq!(offered(&[1, 1, 0, 0], [choice()]), Ok(Next::Send(b"choice".to_vec())));
}

#[test]
fn a_broker_that_demands_a_layer_or_offers_none_is_refused() {
    for layers in [0, 2, 4, 6, 0xfe] {
        let Err(ExchangeError::Broker(problem)) = offered(&[layers, 0, 0, 0], []) else { panic!("{layers} was taken") };
        assert!(problem.contains("demands"), "{problem}");
    }
}

#[test]
fn an_offer_of_another_length_than_four_bytes_is_refused() {
    for offer in [&b""[..], &[1], &[1, 0, 0], &[1, 0, 0, 0, 0], &[1; 1 << 16]] {
        let Err(ExchangeError::Broker(problem)) = offered(offer, []) else { panic!("{offer:?} was taken") };
        assert!(problem.contains("four bytes"), "{problem}");
    }
}

#[test]
fn a_broker_that_proves_nothing_gets_nothing_but_the_ticket() {
    let (mut exchange, _) = start([Call::Initiate(b"garbage".to_vec(), Err(no()))]);
    assert_eq!(exchange.step(b"garbage"), Err(ExchangeError::Library(no())));
    assert!(matches!(exchange.step(b""), Err(ExchangeError::Broker(_))), "it has ended");
}

#[test]
fn an_offer_that_the_context_does_not_unwrap_ends_the_exchange() {
    let (mut exchange, _) = start([initiate(b"proof", b"", true), Call::Unwrap(b"garbage".to_vec(), Err(no()))]);
    assert_eq!(exchange.step(b"proof"), Ok(Next::Send(Vec::new())));
    assert_eq!(exchange.step(b"garbage"), Err(ExchangeError::Library(no())));
    assert!(matches!(exchange.step(b""), Err(ExchangeError::Broker(_))), "it has ended");
}

#[test]
fn a_context_that_stands_without_a_word_of_the_broker_is_refused() {
    let calls = VecDeque::from([initiate(b"", b"ticket", true)]);
    assert!(matches!(Exchange::start(Script(calls)).map(|_| ()), Err(ExchangeError::Broker(_))));
}

#[test]
fn a_huge_message_does_not_come_to_the_library() {
    let (mut exchange, _) = start([]);
    assert!(matches!(exchange.step(&vec![0; MAX_MESSAGE_BYTES + 1]), Err(ExchangeError::Broker(_))));
    assert!(matches!(exchange.step(b""), Err(ExchangeError::Broker(_))), "it has ended");
}

/// A library that takes all it gets, and unwraps to the same bytes.
struct Gullible;

impl SecurityContext for Gullible {
    fn initiate(&mut self, token: &[u8]) -> Result<Initiated, GssError> {
        Ok(Initiated { token: token.to_vec(), is_complete: token.len() > 2 })
    }

    fn unwrap(&mut self, message: &[u8]) -> Result<Vec<u8>, GssError> {
        Ok(message.to_vec())
    }

    fn wrap(&mut self, content: &[u8]) -> Result<Vec<u8>, GssError> {
        Ok(content.to_vec())
    }
}

#[test]
fn no_messages_whatever_end_in_success_without_a_complete_context_and_an_offer() {
    bolero::check!().with_type::<Vec<Vec<u8>>>().for_each(|messages: &Vec<Vec<u8>>| {
        let (mut exchange, _) = Exchange::start(Gullible).unwrap_or_else(|error| panic!("{error:?}"));
        let (mut is_complete, mut is_chosen) = (false, false);
        for message in messages {
            match exchange.step(message) {
                Ok(Next::Done) => {
                    assert!(is_complete && is_chosen);
                    return;
                }
                Ok(Next::Send(_)) if !is_complete => is_complete = message.len() > 2,
                Ok(Next::Send(sent)) => {
                    assert!(message.len() == 4 && message[0] & 1 == 1 && sent == CHOICE);
                    is_chosen = true;
                }
                Err(_) => return,
            }
        }
    });
}
