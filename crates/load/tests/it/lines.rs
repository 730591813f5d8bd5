//! memcached, Redis and raw TCP against servers that say what they are told to.

use std::future::pending;

use crate::common::{MS, Server, plan_for, say};
use curtail_load::{AnswerEnd, Errors, Plan, run, run_observed};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

fn plan(server: &Server, scheme: &str, requests: u64, lines: &[&str]) -> Plan {
    let mut plan = plan_for(server.address, 500.0, requests);
    plan.target = format!("{scheme}://{}", server.address).parse().unwrap();
    plan.queries = lines.iter().map(|line| (*line).to_owned()).collect();
    plan.timeout_ns = 1_000 * MS;
    plan
}

/// Answers each line of a command by its key.
async fn cache(stream: TcpStream) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await.unwrap_or(0) > 0 {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words[0] == "set" {
            let mut data = vec![0; words[4].parse::<usize>().unwrap() + 2];
            stream.read_exact(&mut data).await.unwrap();
        }
        let answer = match (words[0], words[1]) {
            ("get", "hit") => "VALUE hit 0 5\r\nhello\r\nEND\r\n".to_owned(),
            ("get", "miss") => "END\r\n".to_owned(),
            ("get", "big") => format!("VALUE big 0 2000\r\n{}\r\nEND\r\n", "x".repeat(2000)),
            ("get", "half") => return say(stream.get_mut(), "VALUE half 0 5\r\nhe").await,
            ("get", "bad") => "HTTP/1.1 400 Bad Request\r\n".to_owned(),
            ("get", "silent") => pending().await,
            ("set", "full") => "SERVER_ERROR out of memory storing object\r\n".to_owned(),
            ("set", _) => "STORED\r\n".to_owned(),
            _ => "ERROR\r\n".to_owned(),
        };
        say(stream.get_mut(), &answer).await;
        line.clear();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memcached_answers_and_each_failure_is_counted_as_what_it_is() {
    let server = Server::start(cache).await;
    let lines = [
        "get hit",
        "get miss",
        "set key 'a value'",
        "set full x",
        "get bad",
        "get half",
        "get big",
        "get silent",
    ];
    let mut plan = plan(&server, "memcached", 16, &lines);
    plan.body_bytes_max = 1_000;
    let mut seen = Vec::new();
    let on_answer = |answer: &curtail_load::Answer| {
        seen.push((answer.query, answer.good, answer.body_bytes));
    };
    let report = run_observed(&plan, pending(), |_| {}, on_answer).await.unwrap();
    let errors = Errors { refused: 2, malformed: 4, reset: 2, timeout: 2, ..Errors::default() };
    assert_eq!(report.errors, errors, "{report:?}");
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [(0, true, 5), (1, true, 0), (2, true, 0), (3, false, 0)]);
    let first = report.failures.unwrap().first;
    assert_eq!(first, "the server said: SERVER_ERROR out of memory storing object");
}

/// Answers commands of two words by the second.
async fn store(stream: TcpStream) {
    let mut stream = BufReader::new(stream).lines();
    while let Ok(Some(_)) = stream.next_line().await {
        let mut words = Vec::new();
        for _ in 0..2 {
            stream.next_line().await.unwrap();
            words.push(stream.next_line().await.unwrap().unwrap());
        }
        let answer = match &*words[1] {
            "hit" => "$5\r\nhello\r\n",
            "miss" => "$-1\r\n",
            "list" => "*2\r\n$1\r\na\r\n:5\r\n",
            "dies" => return,
            _ => "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
        };
        stream.get_mut().write_all(answer.as_bytes()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_answers_and_its_errors_are_counted() {
    let server = Server::start(store).await;
    let lines = ["GET hit", "get miss", "LRANGE list", "GET set", "GET dies"];
    let report = run(&plan(&server, "redis", 15, &lines), pending(), |_| {}).await.unwrap();
    let errors = Errors { refused: 3, reset: 3, ..Errors::default() };
    assert_eq!(report.errors, errors, "{report:?}");
    assert_eq!(report.histogram.len(), 9);
    assert!(report.failures.unwrap().first.contains("WRONGTYPE"));
    assert!(report.errors.to_string().contains("3 answered with an error"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn raw_answers_end_after_so_many_bytes_or_at_a_delimiter() {
    let server = Server::start(async |mut stream: TcpStream| {
        let mut bytes = [0; 64];
        while let Ok(count @ 1..) = stream.read(&mut bytes).await {
            // In two pieces, of which the first ends inside of the delimiter.
            let (head, tail) = bytes[..count].split_at(count - 1);
            stream.write_all(head).await.unwrap();
            stream.write_all(tail).await.unwrap();
        }
    })
    .await;
    for (end, line) in [
        (AnswerEnd::default(), r"ping\n"),
        (AnswerEnd::Until(b"\0\0".to_vec()), r"a\0b\x00\x00"),
        (AnswerEnd::Bytes(7), "1234567"),
    ] {
        let mut plan = plan(&server, "tcp", 20, &[line]);
        plan.protocol.answer_end = end;
        let report = run(&plan, pending(), |_| {}).await.unwrap();
        assert_eq!((report.errors.total(), report.histogram.len()), (0, 20), "{line}: {report:?}");
    }
    // What comes after the end was not asked for.
    let mut plan = plan(&server, "tcp", 5, &[r"a\nb\n"]);
    plan.connections = 1;
    let report = run(&plan, pending(), |_| {}).await.unwrap();
    assert_eq!(report.errors.total(), report.errors.malformed + report.errors.timeout);
}
