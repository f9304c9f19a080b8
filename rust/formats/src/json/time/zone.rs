//! Time zones: offsets, and regions of the system's database.

use std::fmt;

use jiff::civil::DateTime;
use jiff::tz::AmbiguousOffset;

/// A zone by the names of Spark's `timeZone`: an offset, or a region such as Europe/Prague.
///
/// Regions come from the system's time zone database; without one, no region is known.
#[derive(Clone, PartialEq, Eq)]
pub struct TimeZone(ZoneKind);

#[derive(Clone, PartialEq, Eq)]
enum ZoneKind {
    Offset(i32),
    Region(jiff::tz::TimeZone),
}

/// Java's short names, which the database lacks.
const SHORT_NAMES: [(&str, &str); 28] = [
    ("ACT", "Australia/Darwin"),
    ("AET", "Australia/Sydney"),
    ("AGT", "America/Argentina/Buenos_Aires"),
    ("ART", "Africa/Cairo"),
    ("AST", "America/Anchorage"),
    ("BET", "America/Sao_Paulo"),
    ("BST", "Asia/Dhaka"),
    ("CAT", "Africa/Harare"),
    ("CNT", "America/St_Johns"),
    ("CST", "America/Chicago"),
    ("CTT", "Asia/Shanghai"),
    ("EAT", "Africa/Addis_Ababa"),
    ("ECT", "Europe/Paris"),
    ("EST", "-05:00"),
    ("HST", "-10:00"),
    ("IET", "America/Indiana/Indianapolis"),
    ("IST", "Asia/Kolkata"),
    ("JST", "Asia/Tokyo"),
    ("MIT", "Pacific/Apia"),
    ("MST", "-07:00"),
    ("NET", "Asia/Yerevan"),
    ("NST", "Pacific/Auckland"),
    ("PLT", "Asia/Karachi"),
    ("PNT", "America/Phoenix"),
    ("PRT", "America/Puerto_Rico"),
    ("PST", "America/Los_Angeles"),
    ("SST", "Pacific/Guadalcanal"),
    ("VST", "Asia/Ho_Chi_Minh"),
];

/// Twice the length of the longest region name. Longer texts are not looked up.
pub(super) const MAX_NAME_BYTES: usize = 64;

impl TimeZone {
    /// UTC.
    pub const UTC: Self = Self(ZoneKind::Offset(0));

    /// Zone of this name: `Z`, `UTC`, `+01:00`, `GMT+1`, or a region.
    pub fn named(name: &str) -> Option<Self> {
        if let Some(seconds) = super::zone_offset(name.as_bytes()) {
            return Some(Self(ZoneKind::Offset(seconds as i32)));
        }
        match SHORT_NAMES.binary_search_by_key(&name, |(short, _)| short) {
            Ok(found) => Self::named(SHORT_NAMES[found].1),
            Err(_) => Self::region(name).filter(|zone| zone.to_string() == name),
        }
    }

    pub(super) fn of_offset(seconds: i64) -> Option<Self> {
        (-18 * 3600..=18 * 3600).contains(&seconds).then_some(Self(ZoneKind::Offset(seconds as i32)))
    }

    /// Region of this name, case-insensitively.
    pub(super) fn region(name: &str) -> Option<Self> {
        if name.len() > MAX_NAME_BYTES {
            return None;
        }
        let zone = jiff::tz::db().get(name).ok().filter(|zone| zone.iana_name().is_some())?;
        Some(Self(ZoneKind::Region(zone)))
    }

    /// Offset in seconds at a moment, in seconds since 1970.
    pub(super) fn offset_of(&self, moment: i64) -> i64 {
        /// Calendars repeat every 400 years.
        const CYCLE: i64 = 146_097 * 86_400;
        let zone = match &self.0 {
            ZoneKind::Offset(seconds) => return (*seconds).into(),
            ZoneKind::Region(zone) => zone,
        };
        let (least, most) = (jiff::Timestamp::MIN.as_second(), jiff::Timestamp::MAX.as_second() - CYCLE);
        let within = match moment {
            moment if moment < least => least + (moment - least).rem_euclid(CYCLE),
            moment if moment > most => most + (moment - most).rem_euclid(CYCLE),
            moment => moment,
        };
        jiff::Timestamp::from_second(within).map_or(0, |moment| zone.to_offset(moment).seconds().into())
    }

    /// Java's name of the zone.
    pub(super) fn id(&self) -> String {
        match &self.0 {
            ZoneKind::Offset(seconds) if *seconds != 0 && seconds % 60 == 0 => self.to_string()[..6].to_owned(),
            _ => self.to_string(),
        }
    }

    /// Offset in seconds at a local time. A local time that a clock change skips is moved forward by the gap; of one
    /// that occurs twice, the first is taken, as in Java.
    pub(super) fn offset_at(&self, (year, month, day): (i64, i64, i64), second_of_day: i64) -> i64 {
        let zone = match &self.0 {
            ZoneKind::Offset(seconds) => return (*seconds).into(),
            ZoneKind::Region(zone) => zone,
        };
        // Calendars repeat every 400 years, and so do rules beyond the years that the database knows.
        let year = if (-9000..=9000).contains(&year) { year } else { year.rem_euclid(400) + 8400 * year.signum() };
        let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
        let [month, day, hour, minute, second] = [month, day, hour, minute, second].map(|part| part as i8);
        let Ok(local) = DateTime::new(year as i16, month, day, hour, minute, second, 0) else { return 0 };
        match zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.seconds().into(),
            AmbiguousOffset::Gap { before, .. } | AmbiguousOffset::Fold { before, .. } => before.seconds().into(),
        }
    }
}

impl fmt::Display for TimeZone {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ZoneKind::Offset(0) => formatter.write_str("UTC"),
            ZoneKind::Offset(seconds) => {
                let (sign, seconds) = (if *seconds < 0 { '-' } else { '+' }, seconds.abs());
                write!(formatter, "{sign}{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
            }
            ZoneKind::Region(zone) => formatter.write_str(zone.iana_name().unwrap_or_default()),
        }
    }
}

impl fmt::Debug for TimeZone {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}
