//! Removes the dot segments of a path (RFC 3986 §5.2.4), so that the proxy and the replica agree on
//! the resource: to a replica, `/public/../admin` may be `/admin`, whose route may differ.
//!
//! Percent-encoded dots count, because most replicas decode them before they remove dot segments. The
//! rest of the path is not changed. Unlike in RFC 3986, a path that climbs above the root is an error.

use std::borrow::Cow;

/// The path climbs above the root.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AboveRoot;

/// Returns the target without dot segments. The result is owned if and only if there were some.
pub(crate) fn normalize(path_and_query: &str) -> Result<Cow<'_, str>, AboveRoot> {
    let end = path_and_query.find('?').unwrap_or(path_and_query.len());
    let (path, query) = path_and_query.split_at(end);
    if path.split('/').all(|segment| dots(segment) == 0) {
        return Ok(Cow::Borrowed(path_and_query));
    }
    let mut normal = String::with_capacity(path_and_query.len());
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        match dots(segment) {
            0 => {
                normal.push('/');
                normal.push_str(segment);
                continue;
            }
            1 => {}
            _ => normal.truncate(normal.rfind('/').ok_or(AboveRoot)?),
        }
        // `/a/..` and `/a/.` are directories.
        if segments.peek().is_none() {
            normal.push('/');
        }
    }
    normal.push_str(query);
    Ok(Cow::Owned(normal))
}

/// Returns the number of dots in a dot segment, and 0 for any other segment.
fn dots(segment: &str) -> usize {
    let (mut rest, mut dots) = (segment.as_bytes(), 0);
    while let [b'.', after @ ..] | [b'%', b'2', b'e' | b'E', after @ ..] = rest {
        (rest, dots) = (after, dots + 1);
    }
    if rest.is_empty() && dots <= 2 { dots } else { 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dot_segments_are_removed() {
        for (target, expected) in [
            ("/a/b/c/./../../g", Ok("/a/g")),
            ("/a/../b?c=/../d", Ok("/b?c=/../d")),
            ("/a/%2e%2E/b", Ok("/b")),
            ("/a/.%2e/%2e/b", Ok("/b")),
            ("/a/b/..", Ok("/a/")),
            ("/a/.", Ok("/a/")),
            ("/.", Ok("/")),
            ("/a/..", Ok("/")),
            ("/a//../b", Ok("/a/b")),
            ("/..", Err(AboveRoot)),
            ("/a/../../b", Err(AboveRoot)),
            ("/%2e%2e/a", Err(AboveRoot)),
        ] {
            assert_eq!(normalize(target).as_deref(), expected.as_ref().copied(), "{target}");
        }
        for same in ["/", "/a//b/", "/a.b/..c/...", "/%2f../%2e%2e%2e", "/?/../", "*", "/%2"] {
            assert!(matches!(normalize(same), Ok(Cow::Borrowed(text)) if text == same), "{same}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_left_to_remove(
            segments in prop::collection::vec(prop::sample::select(&["a", "", ".", "..", "%2e", ".%2E", "b.", "..."][..]), 1..9)
        ) {
            if let Ok(normal) = normalize(&format!("/{}", segments.join("/"))) {
                prop_assert!(normal.starts_with('/'));
                prop_assert!(matches!(normalize(&normal), Ok(Cow::Borrowed(_))), "{}", normal);
            }
        }
    }
}
