//! Copies run in the environment of their caller, and know what they are.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use curtail::{Curtail, Instant, Query, Role, StartReason, Timers, outcome};

tokio::task_local! {
    static USER: &'static str;
}

/// What the servers have seen.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

#[tokio::test(start_paused = true)]
async fn a_copy_that_outlives_its_caller_keeps_the_task_locals_and_the_span() {
    let seen = Seen::default();
    let server = {
        let seen = seen.clone();
        tower::service_fn(move |(): ()| {
            let seen = seen.clone();
            async move {
                for _ in 0..2 {
                    let span = tracing::Span::current();
                    let span = span.metadata().map_or("no span", |span| span.name());
                    let user = USER.try_with(|user| *user).unwrap_or("nobody");
                    seen.0.lock().unwrap().push(format!("{user} in {span}"));
                    tokio::time::sleep(Duration::from_millis(100)).await; // tidy: real time (it is paused)
                }
                Ok::<_, std::io::Error>(())
            }
        })
    };
    let service = Curtail::builder()
        .policy("random".parse().unwrap())
        .shard("a", [("a0", server)])
        .timers(Timers::tokio())
        .classify(outcome::any_response)
        .carry(|| {
            let user = USER.try_with(|user| *user).unwrap_or("nobody");
            Arc::new(move |poll| USER.sync_scope(user, poll))
        })
        .build()
        .unwrap();
    let _subscriber = tracing::subscriber::set_default(tracing_subscriber::registry());
    let shard = service.shard("a");
    let span = tracing::info_span!("caller");
    let query = USER.sync_scope("ada", || span.in_scope(|| shard.query(Query::once(()))));
    // The caller leaves, and the server cannot stop, so the copy continues in a task of its own.
    let caller = tokio::spawn(query);
    tokio::time::sleep(Duration::from_millis(50)).await; // tidy: real time (it is paused)
    caller.abort();
    tokio::time::sleep(Duration::from_millis(500)).await; // tidy: real time (it is paused)
    assert_eq!(*seen.0.lock().unwrap(), ["ada in caller"; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_copy_knows_its_deadline_role_attempt_and_reason() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let server = tower::service_fn(|(): ()| async {
        tokio::time::sleep(Duration::from_millis(100)).await; // tidy: real time (it is paused)
        Ok::<_, std::io::Error>(())
    });
    let copies = Arc::clone(&seen);
    let service = Curtail::builder()
        .policy("delayed:5ms".parse().unwrap())
        .shard("a", [("a0", server), ("a1", server)])
        .timers(Timers::tokio())
        .timeout(Duration::from_secs(2))
        .classify(outcome::any_response)
        .repeatable(|()| Some(()))
        .prepare(move |(), copy| copies.lock().unwrap().push(copy.clone()))
        .build()
        .unwrap();
    let began = Instant::now();
    let deadline = began + Duration::from_millis(500);
    service.shard("a").query(Query::idempotent(()).deadline(deadline)).await.unwrap();
    service.scatter(()).await.unwrap();
    let seen = seen.lock().unwrap();
    let [first, second, third, _] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!(
        (first.role(), first.why(), first.attempt()),
        (Role::Primary, StartReason::Arrival, 0)
    );
    assert_eq!(
        (second.role(), second.why(), second.attempt()),
        (Role::Duplicate, StartReason::Delay, 1)
    );
    assert_ne!(first.server(), second.server());
    assert_eq!((first.deadline(), second.deadline()), (Some(deadline), Some(deadline)));
    let timeout = began + Duration::from_millis(100 + 2_000);
    assert_eq!(third.deadline(), Some(timeout), "the timeout of the service");
}
