//! Seconds as dates and times, in ISO 8601, UTC.

/// The range of timestamps that are written as dates: from the start of year 1 to the end of year 9999, in seconds
/// since the epoch. Their years have four digits.
const WRITTEN_SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// The last second and its text: consecutive records often have the same second.
#[derive(Default)]
pub(super) struct SecondText(Option<(i64, String)>);

impl SecondText {
    /// The date and time of a second since the epoch; `None` outside the years 1 to 9999.
    pub(super) fn of(&mut self, second: i64) -> Option<&str> {
        if !WRITTEN_SECONDS.contains(&second) {
            return None;
        }
        if self.0.as_ref().is_none_or(|(known, _)| *known != second) {
            self.0 = Some((second, text_of(second)));
        }
        self.0.as_ref().map(|(_, text)| text.as_str())
    }
}

fn text_of(second: i64) -> String {
    let (days, time) = (second.div_euclid(86_400), second.rem_euclid(86_400));
    // Years begin in March here, so that the leap day is the last day of a year. A cycle of 400 years has 146097 days;
    // one began 719468 days before 1970.
    let (cycle, day) = ((days + 719_468).div_euclid(146_097), (days + 719_468).rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = cycle * 400 + year + next_year;
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}
