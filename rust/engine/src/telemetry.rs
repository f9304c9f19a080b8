//! Metrics that a client pushes to the brokers (KIP-714): it subscribes, pushes in the interval that the broker names,
//! and pushes a last time when it closes.
//!
//! The reactions to errors are those of Kafka's own client (`ClientTelemetryReporter`).

use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use crate::Now;
use crate::backoff::Jitter;

/// The interval where the broker names none, and the wait after a request that was lost: as in Kafka.
pub const DEFAULT_PUSH_INTERVAL: Duration = Duration::from_secs(300);

/// The broker's wishes for this client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TelemetrySubscription {
    /// The id that the broker gave this client.
    pub client_instance_id: Uuid,
    /// Names the subscription.
    pub subscription_id: i32,
    /// The codes of the compression types that the broker accepts, the preferred one first.
    pub accepted_compression_types: Vec<i8>,
    /// The time between two pushes; zero for the default.
    pub push_interval: Duration,
    /// The most bytes of a push.
    pub max_bytes: usize,
    /// Set if sums are since the last push.
    pub delta_temporality: bool,
    /// Prefixes of the metrics' names; none if the broker wants no metrics. Kafka's broker asks for all by `*`.
    pub requested_metrics: Vec<String>,
}

impl TelemetrySubscription {
    /// Tells whether the broker wants a metric.
    pub fn wants(&self, name: &str) -> bool {
        self.requested_metrics.iter().any(|prefix| prefix == "*" || name.starts_with(prefix.as_str()))
    }
}

/// The reason why a request for telemetry brought nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TelemetryFailure {
    /// The broker's answer.
    Code(ErrorCode),
    /// No answer: the connection broke, or the time was over.
    Lost,
    /// No request can be made: the broker does not know it, or this client may not connect.
    Impossible,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TelemetryInput {
    /// The answer to [`TelemetryOutput::Subscribe`].
    Subscribed(Result<TelemetrySubscription, TelemetryFailure>),
    /// The answer to [`TelemetryOutput::Push`].
    Pushed(Result<(), TelemetryFailure>),
    /// The client closes.
    Close,
}

/// A task of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TelemetryOutput {
    /// Send GetTelemetrySubscriptions with the id that is known.
    Subscribe,
    /// Send PushTelemetry for the subscription.
    Push {
        /// Set if it is the client's last one.
        terminating: bool,
    },
    /// Nothing more is to be done.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TelemetryState {
    /// A request for a subscription is due at this time.
    SubscriptionDue(Now),
    Subscribing,
    /// A push is due at this time.
    PushDue(Now),
    Pushing,
    LastPushDue,
    LastPush,
    /// The broker refused for good: nothing is sent any more.
    Off,
    Ended,
}

/// The state machine. The driver calls [`Self::handle`] with each input, and drains [`Self::poll`] after it, and when
/// [`Self::wake_at`] has come.
#[derive(Clone, Debug)]
pub struct TelemetryMachine {
    state: TelemetryState,
    subscription: TelemetrySubscription,
    closing: bool,
    jitter: Jitter,
}

impl TelemetryMachine {
    /// A machine that subscribes at once.
    pub fn new(seed: u64) -> Self {
        Self {
            state: TelemetryState::SubscriptionDue(Now::ZERO),
            subscription: TelemetrySubscription::default(),
            closing: false,
            jitter: Jitter::new(seed),
        }
    }

    /// The subscription in force; its id is zero before the first answer.
    pub fn subscription(&self) -> &TelemetrySubscription {
        &self.subscription
    }

    /// The id that a broker gave this client. It is kept, whatever happens to the subscription.
    pub fn client_instance_id(&self) -> Option<Uuid> {
        Some(self.subscription.client_instance_id).filter(|id| !id.is_zero())
    }

    /// The time when [`Self::poll`] has something to do without a further input.
    pub fn wake_at(&self) -> Option<Now> {
        match self.state {
            TelemetryState::SubscriptionDue(at) | TelemetryState::PushDue(at) => Some(at),
            TelemetryState::LastPushDue => Some(Now::ZERO),
            TelemetryState::Ended
            | TelemetryState::Off
            | TelemetryState::Subscribing
            | TelemetryState::Pushing
            | TelemetryState::LastPush => None,
        }
    }

    /// The next output; `None` if there is nothing to do.
    pub fn poll(&mut self, now: Now) -> Option<TelemetryOutput> {
        match self.state {
            TelemetryState::SubscriptionDue(at) if at <= now => {
                self.state = TelemetryState::Subscribing;
                Some(TelemetryOutput::Subscribe)
            }
            TelemetryState::PushDue(at) if at <= now => {
                self.state = TelemetryState::Pushing;
                Some(TelemetryOutput::Push { terminating: false })
            }
            TelemetryState::LastPushDue => {
                self.state = TelemetryState::LastPush;
                Some(TelemetryOutput::Push { terminating: true })
            }
            TelemetryState::Ended => Some(TelemetryOutput::End),
            _ => None,
        }
    }

    /// Takes an input.
    pub fn handle(&mut self, now: Now, input: TelemetryInput) {
        match input {
            TelemetryInput::Subscribed(answer) => self.subscribed(now, answer),
            TelemetryInput::Pushed(answer) => self.pushed(now, answer),
            TelemetryInput::Close => self.close(),
        }
    }

    fn subscribed(&mut self, now: Now, answer: Result<TelemetrySubscription, TelemetryFailure>) {
        if self.state != TelemetryState::Subscribing {
            return;
        }
        self.state = match answer {
            Ok(mut subscription) => {
                if subscription.push_interval.is_zero() {
                    subscription.push_interval = DEFAULT_PUSH_INTERVAL;
                }
                if subscription.client_instance_id.is_zero() {
                    subscription.client_instance_id = self.subscription.client_instance_id;
                }
                self.subscription = subscription;
                let interval = self.subscription.push_interval;
                if self.subscription.requested_metrics.is_empty() {
                    TelemetryState::SubscriptionDue(now + interval)
                } else {
                    // Clients that were started together must not push together.
                    TelemetryState::PushDue(now + interval.mul_f64(0.5 + self.jitter.unit()))
                }
            }
            Err(failure) => self.after(now, failure),
        };
    }

    fn pushed(&mut self, now: Now, answer: Result<(), TelemetryFailure>) {
        self.state = match (self.state, answer) {
            (TelemetryState::LastPush, _) => TelemetryState::Ended,
            // The push in flight was an ordinary one, and the broker waits for the last.
            (TelemetryState::Pushing, answer) if self.closing => match answer {
                Ok(()) => TelemetryState::LastPushDue,
                Err(_) => TelemetryState::Ended,
            },
            (TelemetryState::Pushing, Ok(())) => TelemetryState::PushDue(now + self.subscription.push_interval),
            (TelemetryState::Pushing, Err(failure)) => self.after(now, failure),
            (state, _) => state,
        };
    }

    fn after(&self, now: Now, failure: TelemetryFailure) -> TelemetryState {
        let interval = self.subscription.push_interval;
        let interval = if interval.is_zero() { DEFAULT_PUSH_INTERVAL } else { interval };
        let wait = match failure {
            TelemetryFailure::Code(ErrorCode::UnknownSubscriptionId | ErrorCode::UnsupportedCompressionType) => {
                Duration::ZERO
            }
            TelemetryFailure::Code(ErrorCode::TelemetryTooLarge | ErrorCode::ThrottlingQuotaExceeded)
            | TelemetryFailure::Lost => interval,
            TelemetryFailure::Code(_) | TelemetryFailure::Impossible => return TelemetryState::Off,
        };
        TelemetryState::SubscriptionDue(now + wait)
    }

    fn close(&mut self) {
        self.closing = true;
        self.state = match self.state {
            TelemetryState::PushDue(_) => TelemetryState::LastPushDue,
            TelemetryState::SubscriptionDue(_) | TelemetryState::Subscribing | TelemetryState::Off => {
                TelemetryState::Ended
            }
            state => state,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);
    const START: Now = Duration::from_secs(100);

    fn subscription(prefixes: &[&str]) -> TelemetrySubscription {
        TelemetrySubscription {
            client_instance_id: Uuid([7; 16]),
            subscription_id: 5,
            push_interval: INTERVAL,
            requested_metrics: prefixes.iter().map(|prefix| (*prefix).to_owned()).collect(),
            ..TelemetrySubscription::default()
        }
    }

    fn subscribed_with(seed: u64, prefixes: &[&str]) -> TelemetryMachine {
        let mut machine = TelemetryMachine::new(seed);
        assert_eq!(machine.poll(START), Some(TelemetryOutput::Subscribe));
        machine.handle(START, TelemetryInput::Subscribed(Ok(subscription(prefixes))));
        machine
    }

    fn pushing() -> (TelemetryMachine, Now) {
        let mut machine = subscribed_with(1, &[""]);
        let at = machine.wake_at().expect("a push is due");
        assert_eq!(machine.poll(at), Some(TelemetryOutput::Push { terminating: false }));
        (machine, at)
    }

    #[test]
    fn the_first_push_comes_after_half_to_one_and_a_half_of_the_interval() {
        let waits: Vec<Duration> =
            (0..50).map(|seed| subscribed_with(seed, &[""]).wake_at().unwrap() - START).collect();
        assert!(waits.iter().all(|wait| (INTERVAL / 2..=INTERVAL * 3 / 2).contains(wait)), "{waits:?}");
        assert!(waits.iter().any(|wait| *wait < INTERVAL) && waits.iter().any(|wait| *wait > INTERVAL));
    }

    #[test]
    fn later_pushes_come_in_the_interval() {
        let (mut machine, at) = pushing();
        assert_eq!(machine.poll(at), None, "one request at a time");
        machine.handle(at, TelemetryInput::Pushed(Ok(())));
        assert_eq!(machine.wake_at(), Some(at + INTERVAL));
        assert_eq!(machine.poll(at + INTERVAL / 2), None);
        assert_eq!(machine.poll(at + INTERVAL), Some(TelemetryOutput::Push { terminating: false }));
    }

    #[test]
    fn without_requested_metrics_nothing_is_pushed_and_the_broker_is_asked_again() {
        let mut machine = subscribed_with(1, &[]);
        assert_eq!(machine.wake_at(), Some(START + INTERVAL));
        assert_eq!(machine.poll(START + INTERVAL), Some(TelemetryOutput::Subscribe));
    }

    #[test]
    fn an_interval_of_zero_is_the_default() {
        let mut machine = TelemetryMachine::new(1);
        machine.poll(START);
        let answer = TelemetrySubscription { push_interval: Duration::ZERO, ..subscription(&[]) };
        machine.handle(START, TelemetryInput::Subscribed(Ok(answer)));
        assert_eq!(machine.wake_at(), Some(START + DEFAULT_PUSH_INTERVAL));
    }

    #[test]
    fn each_error_has_its_reaction() {
        use ErrorCode as Code;
        for (failure, wait) in [
            (TelemetryFailure::Code(Code::UnknownSubscriptionId), Some(Duration::ZERO)),
            (TelemetryFailure::Code(Code::UnsupportedCompressionType), Some(Duration::ZERO)),
            (TelemetryFailure::Code(Code::TelemetryTooLarge), Some(INTERVAL)),
            (TelemetryFailure::Code(Code::ThrottlingQuotaExceeded), Some(INTERVAL)),
            (TelemetryFailure::Lost, Some(INTERVAL)),
            (TelemetryFailure::Code(Code::InvalidRecord), None),
            (TelemetryFailure::Code(Code::InvalidRequest), None),
            (TelemetryFailure::Code(Code::UnsupportedVersion), None),
            (TelemetryFailure::Code(Code::UnknownServerError), None),
            (TelemetryFailure::Impossible, None),
        ] {
            let (mut machine, at) = pushing();
            machine.handle(at, TelemetryInput::Pushed(Err(failure)));
            assert_eq!(machine.wake_at(), wait.map(|wait| at + wait), "{failure:?}");
            if let Some(wait) = wait {
                assert_eq!(machine.poll(at + wait), Some(TelemetryOutput::Subscribe), "{failure:?}");
            }
            assert_eq!(machine.client_instance_id(), Some(Uuid([7; 16])), "it is kept");
        }
    }

    #[test]
    fn a_subscription_that_fails_before_any_answer_waits_for_the_default() {
        let mut machine = TelemetryMachine::new(1);
        machine.poll(START);
        machine.handle(START, TelemetryInput::Subscribed(Err(TelemetryFailure::Lost)));
        assert_eq!(machine.wake_at(), Some(START + DEFAULT_PUSH_INTERVAL));
    }

    #[test]
    fn closing_pushes_a_last_time() {
        let mut machine = subscribed_with(1, &[""]);
        machine.handle(START, TelemetryInput::Close);
        assert_eq!(machine.poll(START), Some(TelemetryOutput::Push { terminating: true }));
        machine.handle(START, TelemetryInput::Pushed(Err(TelemetryFailure::Lost)));
        assert_eq!(machine.poll(START), Some(TelemetryOutput::End));
    }

    #[test]
    fn closing_during_a_push_waits_for_it_and_then_pushes_the_last_time() {
        let (mut machine, at) = pushing();
        machine.handle(at, TelemetryInput::Close);
        assert_eq!(machine.poll(at), None);
        machine.handle(at, TelemetryInput::Pushed(Ok(())));
        assert_eq!(machine.poll(at), Some(TelemetryOutput::Push { terminating: true }));
    }

    #[test]
    fn closing_without_a_subscription_ends_at_once() {
        for answer in [None, Some(Err(TelemetryFailure::Impossible)), Some(Ok(subscription(&[])))] {
            let mut machine = TelemetryMachine::new(1);
            machine.poll(START);
            if let Some(answer) = answer {
                machine.handle(START, TelemetryInput::Subscribed(answer));
            }
            machine.handle(START, TelemetryInput::Close);
            assert_eq!(machine.poll(START), Some(TelemetryOutput::End));
        }
    }

    #[test]
    fn prefixes_choose_the_metrics() {
        let chosen = subscription(&["org.apache.kafka.consumer.fetch", "other"]);
        assert!(chosen.wants("org.apache.kafka.consumer.fetch.manager.fetch.total"));
        assert!(!chosen.wants("org.apache.kafka.consumer.request.total"));
        assert!(subscription(&[""]).wants("anything"));
        assert!(subscription(&["*"]).wants("anything"));
        assert!(!subscription(&[]).wants("anything"));
    }
}
