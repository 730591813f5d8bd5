//! Datagrams.

use bytes::{Buf as _, BufMut as _, BytesMut};

use super::{hear, one, sessions};
use crate::session::{Out, Requests};

/// Behind its length, as the socket gives it.
fn datagram(number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_u32_le(8);
    bytes.put_u64(number);
    bytes
}

#[test]
fn answers_are_matched_by_number_and_others_ignored() {
    let session = sessions(Requests::Udp(one(""))).open();
    let short = [1, 0, 0, 0, 7];
    let input = [&datagram(1)[..], &datagram(1), &short, &datagram(9), &datagram(0)].concat();
    let said = hear(session, &[5, 6], &input, &[]);
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[0].contains("token: 6") && said[1].contains("token: 5"), "{said:?}");
}

#[test]
fn an_answer_to_what_was_given_up_is_not_taken_for_the_next() {
    let mut session = sessions(Requests::Udp(one("filler"))).open();
    let mut out = Out::default();
    session.send(0, 3, &mut out);
    assert_eq!(
        (out.bytes.get_u32_le(), out.bytes.get_u64(), &out.bytes[..]),
        (14, 0, &b"filler"[..])
    );
    assert!(session.abandon(3, &mut out));
    session.send(0, 3, &mut out);
    session.receive(&mut BytesMut::from(&datagram(0)[..]), &mut out).unwrap();
    assert!(out.replies.is_empty());
    session.receive(&mut BytesMut::from(&datagram(1)[..]), &mut out).unwrap();
    assert_eq!(out.replies.len(), 1);
    assert_eq!(session.capacity(), 1 << 16);
}

#[test]
fn an_answer_to_another_connection_of_the_run_is_not_taken_for_ours() {
    let sessions = sessions(Requests::Udp(one("")));
    let mut out = Out::default();
    let (mut first, mut second) = (sessions.open(), sessions.open());
    first.send(0, 1, &mut out);
    let mut answer = out.bytes.split();
    second.send(0, 1, &mut out);
    let mut own = out.bytes.split();
    second.receive(&mut answer, &mut out).unwrap();
    assert!(out.replies.is_empty(), "{out:?}");
    second.receive(&mut own, &mut out).unwrap();
    assert_eq!(out.replies.len(), 1);
}
