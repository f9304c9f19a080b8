//! The limit on repeated events: the first of its kind is passed on at once, those after it are counted, and told of
//! together every ten seconds, or when the log ends.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{Event, Fields};

/// Interval in which repeats of an event are logged once.
pub(super) const WINDOW: Duration = Duration::from_secs(10);

/// Number of different events of which repeats are counted; of more, each is passed on.
const MOST: usize = 1000;

#[derive(Debug)]
struct Repeat {
    window_starts: Instant,
    count: u64,
    last: Option<Event>,
}

impl Repeat {
    fn window_ends(&self) -> Instant {
        self.window_starts + WINDOW
    }
}

/// Events of the last seconds that may be repeated, by their kind and fields.
#[derive(Debug, Default)]
pub(super) struct Repeats(BTreeMap<(&'static str, Fields), Repeat>);

impl Repeats {
    /// The event, if it is to be passed on now. A repetition is kept and counted.
    pub(super) fn pass(&mut self, now: Instant, event: Event) -> Option<Event> {
        let known = self.0.len();
        match self.0.get_mut(&(event.kind.name, event.fields.clone())) {
            Some(repeat) => {
                repeat.count += 1;
                repeat.last = Some(event);
                None
            }
            None => {
                if known < MOST {
                    let repeat = Repeat { window_starts: now, count: 0, last: None };
                    self.0.insert((event.kind.name, event.fields.clone()), repeat);
                }
                Some(event)
            }
        }
    }

    /// The repetitions of each window that is over; of every window, if `is_end`. An event that was not repeated counts
    /// as a first one again.
    pub(super) fn due(&mut self, now: Instant, is_end: bool) -> Vec<Event> {
        let mut due = Vec::new();
        self.0.retain(|_, repeat| {
            if repeat.window_ends() > now && !is_end {
                return true;
            }
            let Some(mut event) = repeat.last.take() else { return false };
            event.repeated = std::mem::take(&mut repeat.count);
            let times = if event.repeated == 1 { "once".into() } else { format!("{} times", event.repeated) };
            // A log that ends, or that nobody drained in time, has a window of another length.
            let lasted = match now.saturating_duration_since(repeat.window_starts).as_secs_f64().round() {
                0.0 => "less than 1 s".into(),
                seconds => format!("{seconds} s"),
            };
            event.message.push_str(&format!(" (repeated {times} in {lasted})"));
            due.push(event);
            repeat.window_starts = now;
            true
        });
        due.sort_by_key(|event| event.at);
        due
    }

    pub(super) fn due_at(&self) -> Option<Instant> {
        self.0.values().map(Repeat::window_ends).min()
    }
}
