//! Names and positions in texts: suggestions for unknown names, excerpts, lines.

/// The maximum number of characters that an error quotes.
const EXCERPT_CHARS: usize = 60;

/// Returns the form that was probably meant by an unknown name. Text after a colon is ignored in
/// the name and in the forms.
#[must_use]
pub fn closest<'k>(wrong: &str, forms: &[&'k str]) -> Option<&'k str> {
    let name = |form: &str| form.split(':').next().unwrap_or_default().to_lowercase();
    let wrong = name(wrong);
    let candidates = forms.iter().filter_map(|form| Some((distance(&wrong, &name(form))?, *form)));
    candidates.min_by_key(|&(off, _)| off).map(|(_, form)| form)
}

/// Returns the number of letters in which two names differ, if it is at most a third of the letters.
/// Swapping two adjacent letters counts as one difference.
#[must_use]
pub fn distance(wrong: &str, right: &str) -> Option<usize> {
    let (long, short) = (wrong.chars().count(), right.chars().count());
    let (long, short) = (long.max(short), long.min(short));
    // Names of very different lengths differ, so their letters need no comparison.
    let may_fit = |off: usize| off * 3 <= long;
    let compare = || strsim::damerau_levenshtein(wrong, right);
    may_fit(long - short).then(compare).filter(|&off| may_fit(off))
}

/// Returns the fix to suggest for an unknown name: the closest form, or a list of all forms.
#[must_use]
pub fn instead(wrong: &str, forms: &[&str]) -> String {
    match closest(wrong, forms) {
        Some(close) => format!("did you mean {close}?"),
        None => format!("use one of {}", forms.join(", ")),
    }
}

/// Shortens a text for an error message, with an ellipsis. Control characters are escaped, because
/// they could disrupt the reader's terminal.
#[must_use]
pub fn excerpt(text: &str) -> String {
    let mut chars = text.chars();
    let mut shown = String::new();
    for char in chars.by_ref().take(EXCERPT_CHARS) {
        if char.is_control() {
            shown.extend(char.escape_default());
        } else {
            shown.push(char);
        }
    }
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}

/// Returns the line at an offset, counting from 1.
#[must_use]
pub fn line_at(text: &[u8], offset: usize) -> usize {
    1 + text.iter().take(offset).filter(|&&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_at_characters_with_an_ellipsis() {
        assert_eq!(excerpt("5 ms"), "5 ms");
        let whole = "µ".repeat(EXCERPT_CHARS);
        assert_eq!(excerpt(&whole), whole);
        assert_eq!(excerpt(&format!("{whole}x")), format!("{whole}…"));
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(excerpt("a\u{1b}[31m\r\u{9b}µ"), r"a\u{1b}[31m\r\u{9b}µ");
    }

    #[test]
    fn the_closest_form_is_suggested_if_it_is_close() {
        let forms = ["laedge", "delayed:D[:cc]", "random"];
        for (wrong, form) in [
            ("ladge", Some("laedge")),
            ("Random", Some("random")),
            ("dealyed:5ms", Some("delayed:D[:cc]")),
            ("fastest", None),
        ] {
            assert_eq!(closest(wrong, &forms), form, "{wrong}");
        }
        assert_eq!(instead("fastest", &forms), "use one of laedge, delayed:D[:cc], random");
    }

    #[test]
    fn lines_count_from_one() {
        let lines = [0, 1, 2, 3, 99].map(|offset| line_at(b"a\n\nb", offset));
        assert_eq!(lines, [1, 1, 2, 3, 3]);
    }
}
