//! Why the load generator does not vouch for a run, told by the sentences that it says it in: its
//! reports have nothing else to tell the kinds by.

/// A kind of reason, as far as somebody here cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The generator sent requests late: it says nothing about who was to answer them.
    FellBehind,
    /// Requests were sent late, for those before them kept all connections busy: the server was slow.
    Crowded,
    /// Requests were not answered well and in time.
    FellShort,
    /// Too many requests have no good answer, and so no latency.
    LeftOut,
    /// Requests were not sent, for none of the earlier ones came to an end.
    Dropped,
    Other,
}

/// What the sentences begin with.
const BEGINNINGS: [(&str, Reason); 4] = [
    ("fell behind: ", Reason::FellBehind),
    ("fell short: ", Reason::FellShort),
    ("left out: ", Reason::LeftOut),
    ("dropped: ", Reason::Dropped),
];

/// How a sentence about a generator that fell behind ends where the server kept it waiting.
const CROWDED: &str = " connections busy: use more";

/// Requests that no server was there for: whoever it was has not become slow, but ended.
const GONE: [&str; 3] = [
    "without a connection",
    "cut off by the server",
    "answered by what is no answer of the protocol",
];

impl Reason {
    pub(crate) fn of(sentence: &str) -> Self {
        let mut known = BEGINNINGS.iter().filter(|(beginning, _)| sentence.starts_with(beginning));
        match known.next() {
            Some((_, Self::FellBehind)) if sentence.ends_with(CROWDED) => Self::Crowded,
            Some((_, reason)) => *reason,
            None => Self::Other,
        }
    }
}

/// The sentence says that requests found no server.
pub(crate) fn tells_of_a_server_that_is_gone(sentence: &str) -> bool {
    GONE.iter().any(|what| sentence.contains(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the sentences are written.
    const VERDICT: &str = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../crates/load/src/results/verdict/text.rs"
    ));
    const RECORD: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/load/src/results/record.rs"));

    /// The texts in quotes of some source, with the escapes as they stand there.
    fn quoted(source: &str) -> Vec<&str> {
        source.lines().flat_map(|line| line.split('"').skip(1).step_by(2)).collect()
    }

    #[test]
    fn the_sentences_of_the_load_generator_are_told_apart() {
        let display = VERDICT.split("impl fmt::Display for Invalid").nth(1).expect("it is shown");
        let texts = quoted(display.split("impl Serialize for Invalid").next().expect("its code"));
        let told = |reason| texts.iter().filter(|text| Reason::of(text) == reason).count();
        for (beginning, reason) in BEGINNINGS {
            assert_eq!(told(reason), 1, "a sentence must begin with {beginning:?}: {texts:?}");
        }
        assert_eq!(texts.iter().filter(|text| text.ends_with(CROWDED)).count(), 1, "{texts:?}");
        let crowded = "fell behind: 140 of 3000 requests were sent more than 1 ms after their \
                       intended times; 130 found all 64 connections busy: use more";
        assert_eq!(Reason::of(crowded), Reason::Crowded);
        let other = ["nothing measured: ", "interrupted"];
        for other in other {
            let text = texts.iter().find(|text| text.starts_with(other));
            assert_eq!(Reason::of(text.expect(other)), Reason::Other);
        }
        assert_eq!(Reason::of("the generator fell behind: by far"), Reason::Other);
    }

    #[test]
    fn servers_that_are_gone_are_told_from_slow_ones() {
        let texts = quoted(RECORD);
        for what in GONE {
            assert!(texts.contains(&what), "the load generator does not say {what:?}");
        }
        let slow = "fell short: 939 of 1050 requests were answered well and in time, 111 without \
                    an answer in time; the server does not sustain this rate";
        assert!(!tells_of_a_server_that_is_gone(slow));
        let gone = "fell short: 0 of 40 requests were answered well and in time, 40 without a \
                    connection";
        assert!(tells_of_a_server_that_is_gone(gone));
    }
}
