//! Runs the examples.

#[allow(dead_code, reason = "an example has a main function of its own")]
#[path = "../examples/axum.rs"]
mod axum;
#[allow(dead_code, reason = "an example has a main function of its own")]
#[path = "../examples/scatter.rs"]
mod scatter;
#[allow(dead_code, reason = "an example has a main function of its own")]
#[path = "../examples/tonic.rs"]
mod tonic;

#[tokio::test]
async fn a_request_is_scattered_to_all_shards() {
    for row in scatter::run(20, 60).await.expect("it runs") {
        assert_eq!(row.failed, 0, "{row:?}");
    }
}

#[tokio::test]
async fn a_generated_client_stands_on_a_shard() {
    tonic::run(20, 60).await.expect("every call succeeds");
}

#[tokio::test]
async fn an_axum_root_answers_from_its_replicas() {
    let root = axum::serve("127.0.0.1:0").await.expect("it listens");
    let text = |path: &str| {
        let url = format!("http://{root}{path}");
        async move { reqwest::get(url).await.expect("a response").text().await.expect("a text") }
    };
    assert_eq!(text("/search?q=tail").await, "ten results\n");
    let status = text("/status").await;
    assert!(status.starts_with("policy rescue+least-outstanding\n"), "{status}");
    assert_eq!(status.matches(": up, 0 outstanding").count(), 2, "{status}");
}
