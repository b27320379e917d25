//! Days and times as text: of what the clock or a repository gives in seconds. Reads no clock.

/// The time so many seconds after 1970 began, in UTC: `2026-11-30T18:52:34Z`.
pub fn time(seconds: i64) -> String {
    let second = seconds.rem_euclid(86_400);
    let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
    format!("{}T{h:02}:{m:02}:{s:02}Z", day(seconds))
}

/// The day of that time: `2026-11-30`.
pub fn day(seconds: i64) -> String {
    // Days are counted from 1 March of a year 0, in eras of 400 years, so that leap days come last.
    let days = seconds.div_euclid(86_400) + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = match month < 10 {
        true => (year + 400 * era, month + 3),
        false => (year + 400 * era + 1, month - 9),
    };
    format!("{year:04}-{month:02}-{day:02}")
}

/// The last day that a date can mean: that of `YYYY-MM-DD` itself, the last one of `YYYY-MM`;
/// nothing for another text.
pub fn last_day(text: &str) -> Option<String> {
    let (year, month, day) = match text.split('-').collect::<Vec<_>>()[..] {
        [year, month] => (year, month, None),
        [year, month, day] => (year, month, Some(day)),
        _ => return None,
    };
    let digits = |text: &str, n: usize| {
        (text.len() == n && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
    };
    let (y, m): (u32, u32) = (digits(year, 4)?, digits(month, 2)?);
    let leap = y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    let last = match m {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    let d: u32 = match day {
        Some(day) => digits(day, 2)?,
        None => last,
    };
    (1..=last)
        .contains(&d)
        .then(|| format!("{year}-{month}-{d:02}"))
}

/// The last second of a date that [`last_day`] takes, in seconds since 1970, in UTC.
pub fn last_second(text: &str) -> Option<i64> {
    let day = last_day(text)?;
    let mut parts = day.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, of_month) = (parts.next()??, parts.next()??, parts.next()??);
    // As in `day`: years begin in March.
    let (year, month) = match month > 2 {
        true => (year, month - 3),
        false => (year - 1, month + 9),
    };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5 + of_month - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Some((days + 1) * 86_400 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, said) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (1_796_064_754, "2026-11-30T18:52:34Z"),
        ] {
            assert_eq!(time(seconds), said);
        }
    }

    #[test]
    fn the_last_second_of_a_day_is_on_it() {
        for text in [
            "1970-01-01",
            "2000-02-29",
            "2024-02",
            "1969-12-31",
            "2100-03-01",
        ] {
            let second = last_second(text).unwrap();
            assert_eq!(Some(day(second)), last_day(text), "{text}");
            assert_ne!(day(second + 1), day(second), "{text}");
        }
        assert_eq!(last_second("2024"), None);
    }

    #[test]
    fn a_month_means_its_last_day() {
        let last = |text: &str| last_day(text).unwrap_or_default();
        assert_eq!(last("2024-02"), "2024-02-29");
        assert_eq!(last("2100-02"), "2100-02-28");
        assert_eq!(last("2023-06-07"), "2023-06-07");
        for wrong in [
            "2023",
            "2023-13",
            "2023-1-1",
            "2023-04-31",
            "x-01-01",
            "2023-04-01-01",
        ] {
            assert_eq!(last_day(wrong), None, "{wrong}");
        }
    }
}
