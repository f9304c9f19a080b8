//! The session that a login begins: it ends unless the client logs in again over the same connection (KIP-368).
//!
//! The broker closes a connection whose session has ended at the next request; a login after the end still works.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use monedula_engine::backoff::Jitter;

use super::Login;
use crate::log::{Entry, kinds};
use crate::net::connection::Connection;

/// A broker takes a further login only a second after the one before; it would be a request in the wrong state.
const SHORTEST_BETWEEN: Duration = Duration::from_millis(1_100);

/// Longer sessions are as good as this one, and do not leave the range of the clock.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Beginning and length of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Session {
    began_at: Instant,
    lifetime: Duration,
}

/// Times of the next login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    /// No request is sent from here on.
    gate: Instant,
    /// The login begins. Later than `gate` only where the session is shorter than the broker's minimum.
    login: Instant,
}

impl Session {
    /// A session of this many milliseconds; `None` if it does not end. It counts from before the login, since the
    /// broker's clock starts somewhere in it.
    pub(super) fn of(began_at: Instant, lifetime_ms: i64) -> Option<Self> {
        let lifetime_ms = u64::try_from(lifetime_ms).ok().filter(|&ms| ms > 0)?;
        Some(Self { began_at, lifetime: Duration::from_millis(lifetime_ms).min(LONGEST) })
    }

    /// After 85 to 95 % of it, so that the connections of many clients do not log in again all at once.
    fn due(&self, draw: u64) -> Due {
        let share = 0.85 + 0.1 * (draw as f64 / u64::MAX as f64);
        let gate = self.began_at + self.lifetime.mul_f64(share);
        Due { gate, login: gate.max(self.began_at + SHORTEST_BETWEEN) }
    }
}

/// Logs in again whenever it is time, in a task of its own, until the connection ends.
pub(super) fn keep(login: Arc<Login>, connection: &Arc<Connection>, version: i16, session: Session, draw: u64) {
    let ended = connection.ended();
    let weak = Arc::downgrade(connection);
    tokio::spawn(async move {
        tokio::select! {
            () = ended => {}
            () = renew(&login, &weak, version, session, Jitter::new(draw)) => {}
        }
    });
}

async fn renew(login: &Login, connection: &Weak<Connection>, version: i16, mut session: Session, mut jitter: Jitter) {
    loop {
        let due = session.due(jitter.next());
        tokio::time::sleep_until(due.gate.into()).await;
        let Some(connection) = connection.upgrade() else { return };
        // Dropped on every way out but the good one, it closes the connection.
        let (gate, busy) = connection.close_gate();
        tokio::time::sleep_until(due.login.into()).await;
        match login.authenticate(&connection, version, busy).await {
            Ok(next) => {
                login.log.record(&kinds::REAUTHENTICATED, || {
                    Entry::new(format!("{}: logged in again", connection.broker())).broker(connection.broker())
                });
                gate.open();
                match next {
                    Some(next) => session = next,
                    None => return,
                }
            }
            // A new connection has the last word: it is made when the next request wants one.
            Err(error) => {
                let broker = connection.broker();
                login.log.record(&kinds::REAUTHENTICATION_FAILED, || {
                    Entry::new(format!("{broker}: logging in again failed: {error}")).broker(broker)
                });
                return connection.close_because(&format!("logging in again failed: {error}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_renewed_after_85_to_95_percent_of_it() {
        let began_at = Instant::now();
        let session = Session::of(began_at, 100_000).expect("it ends");
        assert_eq!(session.due(0), Due { gate: began_at + Duration::from_secs(85), login: session.due(0).gate });
        let latest = session.due(u64::MAX).gate.duration_since(began_at);
        assert!(latest > Duration::from_millis(94_990) && latest <= Duration::from_millis(95_001), "{latest:?}");
    }

    #[test]
    fn requests_wait_from_the_end_of_a_session_that_is_shorter_than_the_shortest_interval() {
        let began_at = Instant::now();
        let due = Session::of(began_at, 1).expect("it ends").due(7);
        assert!(due.gate < began_at + Duration::from_millis(1));
        assert_eq!(due.login, began_at + SHORTEST_BETWEEN);
    }

    #[test]
    fn a_session_without_end_needs_no_renewal() {
        assert_eq!(Session::of(Instant::now(), 0), None);
        assert_eq!(Session::of(Instant::now(), -1), None);
    }

    #[test]
    fn the_longest_session_stays_within_the_clock() {
        let began_at = Instant::now();
        let due = Session::of(began_at, i64::MAX).expect("it ends").due(u64::MAX);
        assert!(due.gate <= began_at + LONGEST);
    }
}
