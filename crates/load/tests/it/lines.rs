//! memcached, Redis and raw TCP over sockets. What ends a response is tested without them (`session/tests`).

use crate::common::{Server, measure, plan_of, say};
use curtail_load::{AnswerEnd, Errors};
use tokio::io::AsyncReadExt as _;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_are_counted_as_what_they_are() {
    let refused = Errors { refused: 10, ..Errors::default() };
    let full = "SERVER_ERROR out of memory storing object\r\n";
    for (scheme, query, answer, errors) in [
        ("memcached", "get hit", "VALUE hit 0 5\r\nhello\r\nEND\r\n", Errors::default()),
        ("memcached", "set key 'a value'", full, refused.clone()),
        ("redis", "LRANGE list", "*2\r\n$1\r\na\r\n:5\r\n", Errors::default()),
        ("redis", "GET set", "-WRONGTYPE not a string\r\n", refused),
        ("tcp", r"ping\n", "pong\n", Errors::default()),
        ("tcp", "1", "1234567\0\0", Errors::default()),
    ] {
        let server = Server::start(move |mut stream| async move {
            while stream.read(&mut [0; 64]).await.is_ok_and(|count| count > 0) {
                // In two pieces, of which the first ends inside of the delimiter.
                let (head, tail) = answer.split_at(answer.len() - 1);
                say(&mut stream, head).await;
                say(&mut stream, tail).await;
            }
        })
        .await;
        let mut plan = plan_of(scheme, server.address, 500.0, 10);
        plan.queries = vec![query.to_owned()];
        if answer.ends_with("\0\0") {
            plan.protocol.answer_end = AnswerEnd::Until(b"\0\0".to_vec());
        }
        let report = measure(&plan).await;
        assert_eq!(report.errors, errors, "{query}: {report:?}");
        if let Some(failures) = report.failures {
            let said = answer.trim_end().trim_start_matches('-');
            assert_eq!(failures.first, format!("the server said: {said}"));
        }
    }
}
