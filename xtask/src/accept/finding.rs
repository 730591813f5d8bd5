//! A claim, what was seen, and whether that is enough.

use std::fmt;

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Holds,
    Broken,
    /// What it takes is not installed here: the figure says what.
    Skipped,
}

impl From<bool> for Verdict {
    fn from(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Broken }
    }
}

/// One claim of a line, judged.
#[derive(Debug)]
pub(super) struct Finding {
    claim: String,
    figure: String,
    pub(super) verdict: Verdict,
}

impl Finding {
    pub(super) fn new(
        claim: impl Into<String>,
        figure: impl Into<String>,
        verdict: impl Into<Verdict>,
    ) -> Self {
        Self { claim: claim.into(), figure: figure.into(), verdict: verdict.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Holds => "holds",
            Verdict::Broken => "BROKEN",
            Verdict::Skipped => "SKIPPED",
        };
        write!(f, "{verdict:<8} {}: {}", self.claim, self.figure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_verdict_claim_and_figure() {
        let finding = Finding::new("at most 250 instructions", "245", 245 <= 250);
        assert_eq!(finding.to_string(), "holds    at most 250 instructions: 245");
        let finding = Finding::new("as good as the peers", "none is installed", Verdict::Skipped);
        assert!(finding.to_string().starts_with("SKIPPED"));
    }
}
