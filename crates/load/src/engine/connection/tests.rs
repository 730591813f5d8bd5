//! What a connection keeps.

mod past_stack;

use super::*;

#[test]
fn without_stamps_the_latest_requests_are_waited_for_and_no_more() {
    let mut leaving = VecDeque::new();
    let all = LEAVING_MAX as u32 + 7;
    (0..all).for_each(|number| push_leaving(&mut leaving, number, number % 5));
    assert!(leaving.into_iter().eq((7..all).map(|number| (number, number % 5))));
}
