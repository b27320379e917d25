//! Streams of server-sent events, as the HTML standard defines them, once they have ended: what was
//! sent under which name. Whether the last event is really the last is the API's to say.

/// One event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Its name; empty when it has none.
    pub name: String,
    /// Its data, lines joined by LF.
    pub data: String,
}

/// The events of a stream. One that is not closed by an empty line was cut off, and is left out, as
/// the standard wants it.
pub fn events(text: &str) -> Vec<Event> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut events = Vec::new();
    let (mut name, mut data) = (String::new(), None::<String>);
    for line in lines(text) {
        if line.is_empty() {
            if let Some(data) = data.take() {
                events.push(Event {
                    name: std::mem::take(&mut name),
                    data,
                });
            }
            name.clear();
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => name = value.to_string(),
            "data" => match &mut data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => data = Some(value.to_string()),
            },
            // Comments, ids and times to reconnect.
            _ => {}
        }
    }
    events
}

/// Whole lines, which end with CRLF, LF or CR.
fn lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(end) = rest.find(['\r', '\n']) {
        lines.push(&rest[..end]);
        let skip = if rest[end..].starts_with("\r\n") {
            2
        } else {
            1
        };
        rest = &rest[end + skip..];
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(name: &str, data: &str) -> Event {
        Event {
            name: name.into(),
            data: data.into(),
        }
    }

    #[test]
    fn events_are_closed_by_empty_lines() {
        let text = ": hello\n\nevent: a\ndata: 1\ndata:2\n\ndata: 3\r\n\r\nid: 7\n\ndata: cut";
        assert_eq!(events(text), [event("a", "1\n2"), event("", "3")]);
    }

    proptest! {
        #[test]
        fn what_is_written_comes_back_whatever_ends_the_lines(
            sent in proptest::collection::vec(("[a-z]{0,6}", "[^\r\n]{0,12}"), 0..6),
            end in prop_oneof![Just("\n"), Just("\r\n"), Just("\r")],
        ) {
            let text: String = sent
                .iter()
                .map(|(name, data)| format!("event: {name}{end}data: {data}{end}{end}"))
                .collect();
            let expected: Vec<Event> = sent.iter().map(|(n, d)| event(n, d)).collect();
            prop_assert_eq!(events(&text), expected);
        }
    }
}
