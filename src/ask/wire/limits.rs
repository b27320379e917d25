//! What the headers of a reply say of how much may be asked, and when again. Times are given as
//! they come, from now or of the calendar; the clock is the caller's.

use std::time::Duration;

use super::Headers;

/// A moment that a provider names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// So long after the reply.
    In(Duration),
    /// So many milliseconds after 1970 began.
    At(u64),
}

impl When {
    /// How long that is from `now`, in milliseconds after 1970 began; nothing if it has passed.
    pub fn wait(self, now: u64) -> Duration {
        match self {
            When::In(wait) => wait,
            When::At(then) => Duration::from_millis(then.saturating_sub(now)),
        }
    }
}

/// One limit of a provider.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limit {
    /// How much there is in a period.
    pub limit: Option<u64>,
    /// How much is left of it.
    pub remaining: Option<u64>,
    /// When it is all there again.
    pub reset: Option<When>,
}

/// The limits that a reply tells of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RateLimits {
    /// When the server wants to be asked again (`retry-after`).
    pub retry_after: Option<When>,
    /// Of requests.
    pub requests: Limit,
    /// Of tokens, of both directions or of an unnamed one.
    pub tokens: Limit,
    /// Of tokens of questions.
    pub input_tokens: Limit,
    /// Of tokens of answers.
    pub output_tokens: Limit,
}

impl RateLimits {
    /// Reads both spellings: `x-ratelimit-remaining-requests` (OpenAI and those who follow it) and
    /// `anthropic-ratelimit-requests-remaining`. What cannot be read is as if it were absent.
    pub fn of(headers: &Headers) -> RateLimits {
        // Most servers say nothing of it, and every reply comes by here.
        if !headers.names().any(|name| name.contains("ratelimit-")) {
            return RateLimits {
                retry_after: retry_after(headers),
                ..RateLimits::default()
            };
        }
        let of = |what: &str| {
            let get = |part: &str| {
                headers
                    .get(&format!("x-ratelimit-{part}-{what}"))
                    .or_else(|| headers.get(&format!("anthropic-ratelimit-{what}-{part}")))
            };
            let number = |part: &str| get(part).and_then(|text| text.trim().parse().ok());
            Limit {
                limit: number("limit"),
                remaining: number("remaining"),
                reset: get("reset").and_then(moment),
            }
        };
        let mut requests = of("requests");
        if requests == Limit::default() {
            // Routers with one limit give it no name, and its reset in milliseconds.
            let get = |part: &str| headers.get(&format!("x-ratelimit-{part}"));
            let number = |part: &str| get(part).and_then(|text| text.trim().parse().ok());
            requests = Limit {
                limit: number("limit"),
                remaining: number("remaining"),
                reset: get("reset").and_then(moment),
            };
        }
        RateLimits {
            retry_after: retry_after(headers),
            requests,
            tokens: of("tokens"),
            input_tokens: of("input-tokens"),
            output_tokens: of("output-tokens"),
        }
    }
}

/// `retry-after-ms`, or `retry-after` in seconds or as a date.
fn retry_after(headers: &Headers) -> Option<When> {
    let millis = headers
        .get("retry-after-ms")
        .and_then(|text| text.trim().parse::<f64>().ok())
        .and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok());
    if let Some(wait) = millis {
        return Some(When::In(wait));
    }
    let text = headers.get("retry-after")?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok().map(When::In);
    }
    http_date(text).or_else(|| rfc3339(text)).map(When::At)
}

/// `20ms`, `6m0s`, `1.5s`, seconds, a date, or milliseconds after 1970 began.
fn moment(text: &str) -> Option<When> {
    let text = text.trim();
    if let Some(at) = rfc3339(text).or_else(|| http_date(text)) {
        return Some(When::At(at));
    }
    if let Ok(number) = text.parse::<f64>() {
        // No period is a year long; the present is after 2001, in seconds and in milliseconds.
        return match number {
            n if n >= 1e12 => Some(When::At(n as u64)),
            n if n >= 1e9 => Some(When::At((n * 1000.0) as u64)),
            n => Duration::try_from_secs_f64(n).ok().map(When::In),
        };
    }
    duration(text).map(When::In)
}

/// Numbers with units, the largest first: `1h2m3.5s`, `250ms`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest
            .find(|c: char| !c.is_alphabetic())
            .unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        total = total.checked_add(Duration::try_from_secs_f64(number * unit).ok()?)?;
        rest = &rest[end..];
    }
    (!text.is_empty()).then_some(total)
}

/// `Wed, 21 Oct 2026 07:28:00 GMT` (RFC 9110), in milliseconds after 1970 began.
fn http_date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, day, month, year, time, "GMT" | "UTC"] = words[..] else {
        return None;
    };
    let month = MONTHS.iter().position(|m| *m == month)? as u32 + 1;
    let seconds = clock(time)?;
    millis(year.parse().ok()?, month, day.parse().ok()?, seconds)
}

/// `2026-10-21T07:28:00Z`, with a fraction or an offset if need be (RFC 3339).
fn rfc3339(text: &str) -> Option<u64> {
    let (day, time) = text.split_once(['T', 't', ' '])?;
    let [year, month, day] = day.split('-').collect::<Vec<_>>()[..] else {
        return None;
    };
    let zone = time.find(['Z', 'z', '+', '-'])?;
    let offset = match &time[zone..] {
        "Z" | "z" => 0.0,
        offset => {
            let (hours, minutes) = offset[1..].split_once(':')?;
            let seconds = f64::from(hours.parse::<u16>().ok()?) * 3600.0
                + f64::from(minutes.parse::<u16>().ok()?) * 60.0;
            if offset.starts_with('-') {
                -seconds
            } else {
                seconds
            }
        }
    };
    let seconds = clock(&time[..zone])? - offset;
    millis(
        year.parse().ok()?,
        month.parse().ok()?,
        day.parse().ok()?,
        seconds,
    )
}

/// Seconds of `07:28:00.5` since midnight.
fn clock(text: &str) -> Option<f64> {
    let [h, m, s] = text.split(':').collect::<Vec<_>>()[..] else {
        return None;
    };
    let (h, m): (u8, u8) = (h.parse().ok()?, m.parse().ok()?);
    let s: f64 = s.parse().ok()?;
    (h < 24 && m < 60 && (0.0..61.0).contains(&s))
        .then(|| f64::from(h) * 3600.0 + f64::from(m) * 60.0 + s)
}

/// A day and the seconds of it, in milliseconds after 1970 began.
fn millis(year: i64, month: u32, day: u32, seconds: f64) -> Option<u64> {
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years are counted from 1 March, so that leap days come last.
    let (year, month) = match month {
        3.. => (year, i64::from(month) - 3),
        _ => (year - 1, i64::from(month) + 9),
    };
    let days =
        year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + i64::from(day)
            - 1
            - 719_468;
    let millis = days as f64 * 86_400_000.0 + seconds * 1000.0;
    (millis >= 0.0).then_some(millis as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(pairs: &[(&str, &str)]) -> RateLimits {
        RateLimits::of(&Headers::of(pairs.iter().copied()))
    }

    #[test]
    fn both_spellings_are_read() {
        let limits = of(&[
            ("X-RateLimit-Limit-Requests", "60"),
            ("x-ratelimit-remaining-requests", "59"),
            ("x-ratelimit-reset-requests", "1s"),
            ("x-ratelimit-limit-tokens", "150000"),
            ("x-ratelimit-remaining-tokens", "149984"),
            ("x-ratelimit-reset-tokens", "6m0s"),
        ]);
        assert_eq!(limits.requests.remaining, Some(59));
        assert_eq!(
            limits.requests.reset,
            Some(When::In(Duration::from_secs(1)))
        );
        assert_eq!(limits.tokens.limit, Some(150_000));
        assert_eq!(
            limits.tokens.reset,
            Some(When::In(Duration::from_secs(360)))
        );
        let limits = of(&[
            ("anthropic-ratelimit-requests-limit", "50"),
            ("anthropic-ratelimit-requests-remaining", "0"),
            ("anthropic-ratelimit-requests-reset", "2026-11-30T00:00:05Z"),
            ("anthropic-ratelimit-input-tokens-remaining", "20000"),
            ("anthropic-ratelimit-output-tokens-remaining", "8000"),
        ]);
        assert_eq!(
            (limits.requests.limit, limits.requests.remaining),
            (Some(50), Some(0))
        );
        assert_eq!(limits.requests.reset, Some(When::At(1_795_996_805_000)));
        assert_eq!(limits.input_tokens.remaining, Some(20_000));
        assert_eq!(limits.output_tokens.remaining, Some(8_000));
        let limits = of(&[
            ("X-RateLimit-Remaining", "0"),
            ("X-RateLimit-Reset", "1741305600000"),
        ]);
        assert_eq!(limits.requests.reset, Some(When::At(1_741_305_600_000)));
        assert_eq!(
            of(&[("x-ratelimit-reset-tokens", "soon")]),
            RateLimits::default()
        );
    }

    #[test]
    fn retry_after_is_a_number_or_a_date() {
        let after = |text| of(&[("Retry-After", text)]).retry_after;
        assert_eq!(after("2"), Some(When::In(Duration::from_secs(2))));
        assert_eq!(after("0.5"), Some(When::In(Duration::from_millis(500))));
        assert_eq!(
            after("Wed, 21 Oct 2015 07:28:00 GMT"),
            Some(When::At(1_445_412_480_000))
        );
        assert_eq!(after("-1"), None);
        assert_eq!(after("in a moment"), None);
        let both = of(&[("retry-after-ms", "1500"), ("retry-after", "9")]).retry_after;
        assert_eq!(both, Some(When::In(Duration::from_millis(1500))));
        assert_eq!(
            When::At(5_000).wait(3_000),
            Duration::from_secs(2),
            "a date is waited for"
        );
        assert_eq!(When::At(5_000).wait(6_000), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn dates_are_those_of_the_calendar(seconds in 0u32..4_102_444_800) {
            let text = crate::date::time(i64::from(seconds));
            prop_assert_eq!(rfc3339(&text), Some(u64::from(seconds) * 1000));
            let offset = text.replace('Z', "+01:00");
            let expected = u64::from(seconds).checked_sub(3600).map(|s| s * 1000);
            prop_assert_eq!(rfc3339(&offset), expected);
        }

        #[test]
        fn nothing_makes_the_reader_panic(text in ".{0,40}") {
            let _ = moment(&text);
            let _ = of(&[("retry-after", &text)]);
        }
    }
}
