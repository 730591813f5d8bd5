//! Tests that a head is relayed alike whether its fields are checked again or copied in runs.

use bytes::BytesMut;
use curtail_http::h1::{
    BodyLength, Joined, Limits, NO_HEADERS, Persistence, Relayed, RequestHead, parse_request,
    write_request, write_response_head,
};
use proptest::prelude::*;

const LINES: &[&str] = &[
    "X-A: one\r\n",
    "X-B: two, three\r\n",
    "x-tight:value\r\n",
    "X-Wide:  value \t\r\n",
    "X-Tab:\tvalue\r\n",
    "X-Empty:\r\n",
    "X-Blank: \r\n",
    "Connection: x-a, host\r\n",
    "Connection: close\r\n",
    "Keep-Alive: 3\r\n",
    "TE: trailers\r\n",
    "Expect: 100-continue\r\n",
    "Drop-Me: now\r\n",
    "Proxy-Authorization: secret\r\n",
];

fn parse(text: &str) -> RequestHead {
    let mut buf = BytesMut::from(text);
    parse_request(&mut buf, &Limits::default()).expect("valid").expect("complete")
}

fn keep(name: &[u8]) -> bool {
    !name.eq_ignore_ascii_case(b"drop-me")
}

proptest! {
    #[test]
    fn runs_have_the_bytes_of_single_fields(
        lines in prop::collection::vec(prop::sample::select(LINES), 0..24),
        length in prop::sample::select(&["", "Content-Length: 0\r\n"][..]),
    ) {
        let lines = lines.concat();
        let head = parse(&format!("GET / HTTP/1.1\r\n{lines}{length}host: a\r\n{lines}\r\n"));
        let (body, default) = (BodyLength::Known(7), Persistence::Default);
        let added = [("via", "1.1 curtail")];
        let singly = || {
            let relayed = head.end_to_end().filter(|(name, _)| keep(name));
            relayed.chain([(&b"via"[..], &b"1.1 curtail"[..])])
        };
        let in_runs = || Joined(Relayed { fields: &head, keep }, added);

        let (mut one, mut other) = (BytesMut::new(), BytesMut::new());
        write_request(&mut one, "GET", "/", singly(), body, default).unwrap();
        write_request(&mut other, "GET", "/", in_runs(), body, default).unwrap();
        prop_assert_eq!(&one, &other);
        write_response_head(&mut one, 200, singly(), body, default).unwrap();
        write_response_head(&mut other, 200, in_runs(), body, default).unwrap();
        prop_assert_eq!(one, other);
    }
}

#[test]
fn fields_of_the_caller_are_still_checked() {
    let head = parse("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    let relayed = || Relayed { fields: &head, keep };
    let (body, default) = (BodyLength::None, Persistence::Default);
    let mut buf = BytesMut::from("kept");
    let wrong = [("a", "b\r\n")];
    write_response_head(&mut buf, 200, Joined(relayed(), wrong), body, default).unwrap_err();
    write_response_head(&mut buf, 200, Joined(wrong, relayed()), body, default).unwrap_err();
    assert_eq!(buf, "kept");
    let both = Joined(Joined(NO_HEADERS, relayed()), [("b", "c")]);
    write_response_head(&mut buf, 204, both, body, default).unwrap();
    assert_eq!(buf, "keptHTTP/1.1 204 No Content\r\nhost: a\r\nb: c\r\n\r\n");
}
