//! Source files are bytes, prompts and replies are text: from one to the other and back.

/// `bytes` as text: UTF-8 if they are, else one character a byte (Latin-1), which loses nothing.
pub fn decode(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_string(),
        Err(_) => bytes.iter().map(|b| char::from(*b)).collect(),
    }
}

/// `text` as bytes for a place that held `original`: in Latin-1 if the original was no UTF-8 and
/// Latin-1 can say it, else in UTF-8.
pub fn encode_like(original: &[u8], text: &str) -> Vec<u8> {
    if std::str::from_utf8(original).is_err() {
        let latin: Option<Vec<u8>> = text
            .chars()
            .map(|c| u8::try_from(u32::from(c)).ok())
            .collect();
        if let Some(latin) = latin {
            return latin;
        }
    }
    text.as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_decoded_comes_back(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            prop_assert_eq!(encode_like(&bytes, &decode(&bytes)), bytes);
        }
    }

    #[test]
    fn what_latin_1_cannot_say_is_utf_8() {
        assert_eq!(
            encode_like(b"\xe9", "\u{e9}\u{20ac}"),
            "\u{e9}\u{20ac}".as_bytes()
        );
    }
}
