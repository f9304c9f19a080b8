//! Tickets that were got with a keytab: shared by all logins of a client, and got anew before they end.

use std::sync::Arc;
use std::time::Duration;

use monedula_engine::backoff::Jitter;

/// Refused tickets that are younger would be refused again.
const FRESH_MS: i64 = 10_000;

/// `sasl.kerberos.ticket.renew.*` and `sasl.kerberos.min.time.before.relogin`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Renewal {
    /// New tickets are got for the first login after this share of their life.
    pub(super) window_factor: f64,
    /// Largest share that is added to it at random.
    pub(super) jitter: f64,
    /// Time for which a failed attempt is not repeated while the tickets are valid.
    pub(super) pause: Duration,
}

/// The tickets. Times are milliseconds since 1970: a machine that was asleep has them expire all the same.
pub(super) struct Tickets<C> {
    renewal: Renewal,
    jitter: Jitter,
    held: Option<HeldTickets<C>>,
    /// Grows with each renewal.
    number: u64,
}

struct HeldTickets<C> {
    credential: Arc<C>,
    got_at_ms: i64,
    renew_at_ms: i64,
    ends_at_ms: i64,
}

impl<C> Tickets<C> {
    pub(super) fn new(renewal: Renewal) -> Self {
        Self { renewal, jitter: Jitter::new(crate::wall_clock::now_ms().unsigned_abs()), held: None, number: 0 }
    }

    /// Tickets that are held, or new ones; and their number. If new ones cannot be had, valid ones go on serving.
    pub(super) fn current<E>(
        &mut self,
        now_ms: i64,
        acquire: impl FnOnce() -> Result<(Arc<C>, Option<Duration>), E>,
    ) -> Result<(Arc<C>, u64), E> {
        if let Some(held) = self.held.as_ref().filter(|held| now_ms < held.renew_at_ms) {
            return Ok((held.credential.clone(), self.number));
        }
        match acquire() {
            Ok((credential, lifetime)) => {
                let lifetime_ms = lifetime.map_or(i64::MAX, |life| i64::try_from(life.as_millis()).unwrap_or(i64::MAX));
                self.number += 1;
                self.held = Some(HeldTickets {
                    credential: credential.clone(),
                    got_at_ms: now_ms,
                    renew_at_ms: now_ms.saturating_add(self.wait_ms(lifetime_ms)),
                    ends_at_ms: now_ms.saturating_add(lifetime_ms),
                });
                Ok((credential, self.number))
            }
            Err(error) => match self.held.as_mut().filter(|held| now_ms < held.ends_at_ms) {
                Some(held) => {
                    held.renew_at_ms = now_ms + i64::try_from(self.renewal.pause.as_millis()).unwrap_or_default();
                    Ok((held.credential.clone(), self.number))
                }
                None => {
                    self.held = None;
                    Err(error)
                }
            },
        }
    }

    /// A broker refused the tickets of this number. Returns true if there are newer ones, or will be at the next login.
    pub(super) fn refused(&mut self, number: u64, now_ms: i64) -> bool {
        if self.number > number || self.held.is_none() {
            return true;
        }
        let is_old = self.held.as_ref().is_some_and(|held| now_ms - held.got_at_ms > FRESH_MS);
        if is_old {
            self.held = None;
        }
        is_old
    }

    fn wait_ms(&mut self, lifetime_ms: i64) -> i64 {
        let draw = self.jitter.unit();
        let share = (self.renewal.window_factor + self.renewal.jitter * draw).clamp(0.0, 1.0);
        (lifetime_ms as f64 * share) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;
    type Got = Result<(Arc<u32>, Option<Duration>), &'static str>;

    fn tickets() -> Tickets<u32> {
        Tickets::new(Renewal { window_factor: 0.8, jitter: 0.05, pause: Duration::from_secs(60) })
    }

    fn lasting(value: u32) -> Got {
        Ok((Arc::new(value), Some(Duration::from_secs(3600))))
    }

    #[test]
    fn tickets_serve_for_80_to_85_percent_of_their_life_and_are_then_got_anew() {
        let mut tickets = tickets();
        let mut at =
            |now_ms, acquire: fn() -> Got| tickets.current(now_ms, acquire).map(|(value, number)| (*value, number));
        assert_eq!(at(0, || lasting(1)), Ok((1, 1)));
        assert_eq!(at(HOUR_MS * 8 / 10 - 1, || panic!("they are valid")), Ok((1, 1)));
        assert_eq!(at(HOUR_MS * 85 / 100 + 1, || lasting(2)), Ok((2, 2)));
    }

    #[test]
    fn valid_tickets_go_on_serving_while_the_kdc_is_away_and_it_is_not_asked_for_each_login() {
        let mut tickets = tickets();
        let mut at = |now_ms, acquire: fn() -> Got| tickets.current(now_ms, acquire).map(|(value, _)| *value);
        assert_eq!(at(0, || lasting(1)), Ok(1));
        let late = HOUR_MS * 9 / 10;
        assert_eq!(at(late, || Err("away")), Ok(1));
        assert_eq!(at(late + 59_000, || panic!("too soon")), Ok(1));
        assert_eq!(at(late + 60_000, || Err("away")), Ok(1));
        assert_eq!(at(HOUR_MS, || Err("away")), Err("away"));
        assert_eq!(at(HOUR_MS, || lasting(2)), Ok(2));
    }

    #[test]
    fn tickets_that_were_refused_when_they_were_new_are_not_replaced() {
        let mut tickets = tickets();
        assert_eq!(tickets.current(0, || lasting(1)).map(|(_, number)| number), Ok(1));
        assert!(!tickets.refused(1, 1_000));
        assert!(tickets.refused(1, FRESH_MS + 1), "they have served");
        assert_eq!(tickets.current(FRESH_MS + 2, || lasting(2)).map(|(value, _)| *value), Ok(2));
        assert!(tickets.refused(1, FRESH_MS + 3), "newer ones are there");
    }

    #[test]
    fn tickets_without_end_and_without_life_stay_within_the_clock() {
        let mut tickets = tickets();
        assert_eq!(tickets.current(1, || Ok::<_, ()>((Arc::new(1), None))).map(|(value, _)| *value), Ok(1));
        assert_eq!(tickets.current(i64::MAX / 2, || Err(())).map(|(value, _)| *value), Ok(1));
        let mut tickets = self::tickets();
        let dead = || Ok::<_, ()>((Arc::new(1), Some(Duration::ZERO)));
        assert_eq!(tickets.current(1, dead).map(|(_, number)| number), Ok(1));
        assert_eq!(tickets.current(1, dead).map(|(_, number)| number), Ok(2));
    }
}
