//! The Rust code of `docs/library.md` is compiled: each line stands in an example, or below.

use std::convert::Infallible;
use std::time::Duration;

use ::http::{Request, Response};
use curtail::{BoxError, Cancel, Curtail, Instant, Query, outcome};

const SOURCES: [&str; 5] = [
    include_str!("page.rs"),
    include_str!("../../examples/axum.rs"),
    include_str!("../../examples/scatter.rs"),
    include_str!("../../examples/tonic.rs"),
    include_str!("../../../../examples/policy/src/main.rs"),
];

/// The code of a line, without spaces and comments.
fn code(line: &str) -> String {
    line.split("//").next().unwrap_or_default().split_whitespace().collect()
}

#[test]
fn all_code_of_the_page_is_compiled() {
    let page = include_str!("../../../../docs/library.md");
    let compiled = SOURCES.map(|source| source.lines().map(code).collect::<String>()).concat();
    let blocks: Vec<&str> = page.split("```rust\n").skip(1).collect();
    assert_eq!(blocks.len(), 4);
    for block in blocks {
        let (block, _) = block.split_once("```").expect("it ends");
        // The lines with an ellipsis leave something out.
        for line in block.lines().filter(|line| !line.contains('…')) {
            assert!(compiled.contains(&code(line)), "no example has the line {line}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_twenty_lines_run() -> Result<(), BoxError> {
    let leaf = |of: &'static str| {
        tower::service_fn(
            move |_: Request<()>| async move { Ok::<_, Infallible>(Response::new(of)) },
        )
    };
    let [a0, a1, b0, b1] = ["a0", "a1", "b0", "b1"];
    let request = Request::new(());
    #[rustfmt::skip]
    let search = Curtail::builder()
        .policy("rescue".parse()?)
        .shard("a", [("a0", leaf(a0)), ("a1", leaf(a1))])
        .shard("b", [("b0", leaf(b0)), ("b1", leaf(b1))])
        .slots(4)
        .timeout(Duration::from_secs(2))
        .cancellation(Cancel::OnDrop)
        .classify(outcome::http)
        .repeatable(|r: &Request<()>| r.method().is_safe().then(|| r.clone()))
        .build()?;
    let answers = search
        .scatter(request)
        .deadline(Instant::now() + Duration::from_millis(300))
        .at_least(1)
        .await?;
    assert_eq!((answers.answers.len(), answers.missing.len()), (2, 0));
    for answer in answers {
        assert_eq!(answer.response.body(), &&*answer.server);
        println!("{} from {}: {} copies", answer.response.status(), answer.server, answer.copies);
    }
    let (request, deadline) = (Request::new(()), Instant::now() + Duration::from_millis(300));
    let query = Query::idempotent(request).deadline(deadline);
    let answer = search.shard("a").query(query).await?;
    println!("{} copies, {:?} in the queue, from {}", answer.copies, answer.queued, answer.server);
    assert_eq!((answer.copies, &*answer.shard), (1, "a"));
    Ok(())
}
