//! The `tracing` spans of requests and sub-tasks. In a program of its own, because tests without a
//! subscriber that run at the same time can switch spans off.
#![allow(missing_docs)]

use std::io::{Result, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use curtail_flow::{Flow, RequestMeta, ResourceSpec, Workflow};
use tokio::time::{Instant, sleep_until};
use tracing_subscriber::fmt::format::FmtSpan;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn admissions_and_subtasks_are_spans_with_their_outcomes() {
    let log = Log::default();
    let into = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_span_events(FmtSpan::CLOSE)
        .with_ansi(false)
        .with_writer(move || into.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let limited = Workflow { limit: 10.0, ..Workflow::default() };
    let disk = ResourceSpec { slots: 1, queue: 9 };
    let flow = Flow::builder("shop").workflow("a", limited).resource("disk", disk);
    let flow = flow.build().expect("sound");
    let ms = Duration::from_millis;
    let admit = async |timeout| flow.admit("a", &RequestMeta { timeout, call: None }).await;
    let first = admit(Some(ms(50))).await.expect("no limit yet");
    let hold = first.context().subtask("disk", None, async {
        tracing::debug!("it works");
        sleep_until(Instant::now() + ms(150)).await;
    });
    let (held, late) = tokio::join!(hold, first.context().subtask("disk", None, async {}));
    assert!(held.is_ok() && late.is_err());
    admit(None).await.expect("a token").finish(true);
    admit(None).await.expect("there is room").finish(true);
    assert!(admit(Some(ms(1))).await.is_err());

    let log = String::from_utf8(log.0.lock().expect("no panic").clone()).expect("text");
    let count = |parts: [&str; 3]| {
        log.lines().filter(|line| parts.iter().all(|part| line.contains(part))).count()
    };
    let admission = r#"admission{service="shop" workflow="a" wait_us="#;
    let subtask = r#"subtask{service="shop" workflow="a" resource="disk" wait_us="#;
    assert_eq!(count([admission, r#"outcome="served""#, "close"]), 3, "{log}");
    assert_eq!(count([admission, r#"outcome="late""#, "rejected"]), 1, "{log}");
    assert_eq!(count([subtask, r#"wait_us=50000 outcome="late""#, "rejected"]), 1, "{log}");
    assert_eq!(count([subtask, r#"wait_us=0 outcome="served""#, "it works"]), 1, "{log}");
}
