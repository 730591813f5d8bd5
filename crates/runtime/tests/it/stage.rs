//! Tests the server's side: slots, the queue in front of them, and the reports about both.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ::http::Response;
use bytes::BytesMut;
use curtail_http::h1::{Limits, parse_response};
use curtail_kernel::Feedback;
use curtail_kernel::stage::Priority;
use curtail_runtime::http::LoadReport;
use curtail_runtime::stage::{
    Overloaded, Permit, Stage, StageError, StageLayer, orca, server_timing, urgency,
};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, Sleep, sleep};
use tower::util::BoxCloneService;
use tower::{Layer as _, Service, ServiceExt as _};

const MS: Duration = Duration::from_millis(1);

/// A request, which consists of a number that the service records and the time that the request
/// takes.
type Job = (u32, Duration);

/// A response, which consists of its time and the load report.
type Done = (Instant, LoadReport);

fn attach(done: &mut Done, report: &LoadReport) {
    done.1 = *report;
}

/// Returns a service behind a stage. Each request states how long it takes, and fails if that time
/// is zero.
fn staged(
    stage: &Stage,
    begun: &Arc<Mutex<Vec<u32>>>,
) -> BoxCloneService<Job, Done, StageError<&'static str>> {
    let begun = Arc::clone(begun);
    let inner = tower::service_fn(move |(id, takes): Job| {
        begun.lock().unwrap().push(id);
        async move {
            sleep(takes).await;
            let done = (Instant::now(), LoadReport::default());
            if takes.is_zero() { Err("nothing to do") } else { Ok(done) }
        }
    });
    BoxCloneService::new(StageLayer::new(stage.clone(), attach).layer(inner))
}

fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn ready<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> F::Output {
    match poll(future) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it is not ready"),
    }
}

fn load(stage: &Stage) -> (u32, u32) {
    (stage.running(), stage.waiting())
}

#[tokio::test(start_paused = true)]
async fn slots_go_to_the_oldest_request_and_reports_count_the_rest() {
    let (stage, begun) = (Stage::new(2, 3), Arc::default());
    let service = staged(&stage, &begun);
    let start = Instant::now();
    let mut all = JoinSet::new();
    for id in 0..5 {
        all.spawn(service.clone().oneshot((id, 10 * MS)));
        yield_now().await;
    }
    assert_eq!(load(&stage), (2, 3));
    let mut responses = Vec::new();
    while let Some(response) = all.join_next().await {
        let (at, report) = response.unwrap().unwrap();
        let Feedback { queue, service_ns } = report.feedback().expect("a whole report");
        responses.push((at.duration_since(start).as_millis(), queue, service_ns / 1_000_000));
    }
    // The time spent waiting does not count as service time. A report counts the requests left
    // after the next one has taken the slot.
    assert_eq!(responses, [(10, 4, 10), (10, 3, 10), (20, 2, 10), (20, 1, 10), (30, 0, 10)]);
    assert_eq!(*begun.lock().unwrap(), [0, 1, 2, 3, 4]);
    assert_eq!(load(&stage), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_rejects_before_the_service() {
    let (stage, begun) = (Stage::new(1, 1), Arc::default());
    let mut service = staged(&stage, &begun);
    let mut first = Box::pin(service.clone().oneshot((0, 10 * MS)));
    let mut second = Box::pin(service.clone().oneshot((1, 10 * MS)));
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    // The service is ready although the queue is full, because readiness reserves no place.
    let mut third = Box::pin(service.ready().await.unwrap().call((2, 10 * MS)));
    assert_eq!(ready(&mut third).unwrap_err(), StageError::Overloaded(Overloaded));
    assert_eq!(load(&stage), (1, 1));
    assert!(first.await.is_ok() && second.await.is_ok());
    assert_eq!(*begun.lock().unwrap(), [0, 1]);
    assert!(service.oneshot((3, 10 * MS)).await.is_ok(), "there is room again");
}

#[tokio::test(start_paused = true)]
async fn readiness_and_futures_that_are_never_polled_take_no_slot() {
    let (stage, begun) = (Stage::new(1, 0), Arc::default());
    let service = staged(&stage, &begun);
    let mut clones = [service.clone(), service.clone(), service.clone()];
    let mut calls = Vec::new();
    for clone in &mut clones {
        calls.push(clone.ready().await.unwrap().call((0, MS)));
    }
    assert_eq!(load(&stage), (0, 0));
    assert!(service.oneshot((1, MS)).await.is_ok());
    assert_eq!(*begun.lock().unwrap(), [1]);
}

/// A service that becomes ready after a delay.
#[derive(Clone)]
struct Warming(Arc<Mutex<Pin<Box<Sleep>>>>);

impl Service<()> for Warming {
    type Response = LoadReport;
    type Error = Infallible;
    type Future = std::future::Ready<Result<LoadReport, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.lock().unwrap().as_mut().poll(cx).map(Ok)
    }

    fn call(&mut self, (): ()) -> Self::Future {
        std::future::ready(Ok(LoadReport::default()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_not_ready_is_waited_for_in_its_slot() {
    let warming = Warming(Arc::new(Mutex::new(Box::pin(sleep(5 * MS)))));
    let say = |response: &mut LoadReport, report: &LoadReport| *response = *report;
    let mut service = StageLayer::new(Stage::new(1, 0), say).layer(warming);
    assert!(service.poll_ready(&mut Context::from_waker(Waker::noop())).is_ready());
    assert_eq!(service.oneshot(()).await.unwrap().service, Some(5 * MS));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_frees_its_slot_or_its_place() {
    let (stage, begun) = (Stage::new(1, 3), Arc::default());
    let service = staged(&stage, &begun);
    let mut calls: Vec<_> =
        (0..4).map(|id| Box::pin(service.clone().oneshot((id, 10 * MS)))).collect();
    assert!(calls.iter_mut().all(|call| poll(call).is_pending()));
    drop(calls.remove(2));
    assert_eq!(load(&stage), (1, 2), "it waited");
    drop(calls.remove(0));
    assert_eq!(load(&stage), (1, 1), "it ran, and the next one does");
    // The request has a slot, and leaves before it begins.
    drop(calls.remove(0));
    assert_eq!(load(&stage), (1, 0));
    let (_, report) = calls.remove(0).await.unwrap();
    assert_eq!(report.feedback(), Some(Feedback { queue: 0, service_ns: 10_000_000 }));
    assert_eq!(*begun.lock().unwrap(), [0, 3]);
    let failed = service.oneshot((4, Duration::ZERO)).await.unwrap_err();
    assert_eq!(failed, StageError::Service("nothing to do"));
    assert_eq!(load(&stage), (0, 0), "a failure frees its slot");
}

#[tokio::test(start_paused = true)]
async fn permits_taken_by_hand_report_and_probes_are_answered() {
    let stage = Stage::new(1, 2);
    assert_eq!(stage.probe().probed(), Some((0, 0)));
    let first = stage.enter().await.unwrap();
    let mut second = Box::pin(stage.enter());
    assert!(poll(&mut second).is_pending());
    tokio::time::advance(5 * MS).await;
    assert_eq!(stage.probe().probed(), Some((2, 0)));
    let report: LoadReport = first.finish();
    assert_eq!(report.feedback(), Some(Feedback { queue: 1, service_ns: 5_000_000 }));
    let second: Permit = ready(&mut second).unwrap();
    assert_eq!(stage.probe().probed(), Some((1, 5_000_000)));
    drop(second);
    assert_eq!(load(&stage), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_proxy_parses_attached_reports() {
    let handler = tower::service_fn(|takes: Duration| async move {
        sleep(takes).await;
        let response = Response::builder().header("server-timing", "db;dur=0.5");
        response.header("endpoint-load-metrics", "TEXT queue=77").body(())
    });
    let read = |response: &Response<()>| {
        let mut text = String::from("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n");
        for (name, value) in response.headers() {
            text += &format!("{name}: {}\r\n", value.to_str().unwrap());
        }
        let mut bytes = BytesMut::from((text + "\r\n").as_bytes());
        let head = parse_response(&mut bytes, &Limits::default(), false).unwrap().unwrap();
        (LoadReport::of(&head), head.values("server-timing").count())
    };
    let takes = 3 * MS;
    let written = LoadReport { queue: Some(0), service: Some(takes), ..LoadReport::default() };
    let service = StageLayer::new(Stage::new(1, 1), orca).layer(handler);
    let (report, timings) = read(&service.oneshot(takes).await.unwrap());
    assert_eq!((report, timings), (written, 1), "in place of the handler's own");
    let both = |response: &mut Response<()>, report: &LoadReport| {
        orca(response, report);
        server_timing(response, report);
    };
    let service = StageLayer::new(Stage::new(1, 1), both).layer(handler);
    let response = service.oneshot(takes).await.unwrap();
    let (report, timings) = read(&response);
    assert_eq!((report, timings), (written, 2), "beside the handler's own");
    let mut alone = LoadReport::default();
    let timing = response.headers().get_all("server-timing").iter().next_back().unwrap();
    alone.read_server_timing(timing.as_bytes());
    assert_eq!(alone, written);
}

#[tokio::test(start_paused = true)]
async fn duplicates_are_served_when_no_other_request_is_there() {
    let stage = Stage::new(1, 10);
    let runs = stage.enter().await.expect("a slot is free");
    let mut low = Box::pin(stage.enter_as(Priority::Low));
    let mut high = Box::pin(stage.enter());
    assert!(poll(&mut low).is_pending() && poll(&mut high).is_pending());
    assert_eq!(stage.waiting(), 2);
    drop(runs);
    let later = ready(&mut high).expect("it overtakes");
    assert!(poll(&mut low).is_pending());
    let report = later.finish();
    assert_eq!(report.feedback().expect("whole").queue, 0, "it ignores duplicates");
    let low = ready(&mut low).expect("its turn");
    assert_eq!(load(&stage), (1, 0));
    drop(low);
    assert_eq!(load(&stage), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_gives_its_slot_at_once_and_spends_what_is_left_when_it_is_back() {
    let stage = Stage::preemptive(1, 10);
    let start = Instant::now();
    let mut low = stage.enter_as(Priority::Low).await.expect("a slot is free");
    let low = tokio::spawn(async move {
        low.spend(10 * MS, tokio::time::sleep_until).await;
        (Instant::now(), low.finish())
    });
    sleep(4 * MS).await;
    let mut high = stage.enter().await.expect("it takes the slot");
    assert_eq!((start.elapsed(), load(&stage)), (4 * MS, (1, 1)));
    high.spend(20 * MS, tokio::time::sleep_until).await;
    assert_eq!(start.elapsed(), 24 * MS);
    let _ = high.finish();
    let (ended, report) = low.await.expect("it ends");
    assert_eq!(ended - start, 30 * MS, "6 of 10 were left");
    let took = Duration::from_nanos(report.feedback().expect("whole").service_ns);
    assert_eq!(took, 10 * MS, "without the time in which it was paused");
}

#[tokio::test(start_paused = true)]
async fn between_two_pieces_a_duplicate_steps_aside_for_one_that_waits() {
    let stage = Stage::new(1, 10);
    let mut low = stage.enter_as(Priority::Low).await.expect("a slot is free");
    low.step_aside().await;
    let mut high = Box::pin(stage.enter());
    assert!(poll(&mut high).is_pending(), "not in the middle of a chunk");
    let aside = tokio::spawn(async move {
        low.step_aside().await;
        low.finish()
    });
    let mut high = high.await.expect("the chunk has ended");
    high.step_aside().await;
    assert_eq!(load(&stage), (1, 1), "a primary does not pause");
    drop(high);
    aside.await.expect("its next chunk");
    assert_eq!(load(&stage), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn one_that_stands_aside_may_be_given_up() {
    let stage = Stage::preemptive(1, 10);
    let mut low = stage.enter_as(Priority::Low).await.expect("a slot is free");
    let mut spends = Box::pin(async move {
        low.spend(10 * MS, tokio::time::sleep_until).await;
        low.finish()
    });
    assert!(poll(&mut spends).is_pending());
    let high = stage.enter().await.expect("it takes the slot");
    assert!(poll(&mut spends).is_pending());
    drop(spends);
    assert_eq!(load(&stage), (1, 0), "it has left");
    drop(high);
    assert_eq!(load(&stage), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_layer_reads_the_priority_of_requests() {
    let stage = Stage::new(1, 10);
    let inner = tower::service_fn(|_: http::Request<()>| async {
        sleep(10 * MS).await;
        Ok::<_, Infallible>(Response::new(()))
    });
    let service = StageLayer::new(stage, orca).prioritized(urgency).layer(inner);
    let start = Instant::now();
    let mut all = JoinSet::new();
    for urgency in ["u=3", "u=7", "u=0"] {
        let request = http::Request::builder().header("priority", urgency).body(()).unwrap();
        let service = service.clone();
        all.spawn(async move {
            service.oneshot(request).await.expect("there is room");
            (start.elapsed().as_millis(), urgency)
        });
        yield_now().await;
    }
    let mut ends = all.join_all().await;
    ends.sort_unstable();
    assert_eq!(ends, [(10, "u=3"), (20, "u=0"), (30, "u=7")]);
}

#[tokio::test(start_paused = true)]
async fn a_throttled_stage_finds_how_many_a_server_can_serve_at_once() {
    // If at most three requests run concurrently, each takes 4 ms. If more requests run, they share
    // the capacity.
    let (stage, there) = (Stage::throttled(64, 1_000), Arc::new(Mutex::new(0_u32)));
    let mut clients = JoinSet::new();
    for _ in 0..40 {
        let (stage, there) = (stage.clone(), Arc::clone(&there));
        clients.spawn(async move {
            loop {
                let permit = stage.enter().await.expect("there is room");
                let share = {
                    let mut there = there.lock().unwrap();
                    *there += 1;
                    f64::from(*there).max(3.0) / 3.0
                };
                sleep((4 * MS).mul_f64(share)).await;
                *there.lock().unwrap() -= 1;
                stage.did(1_000);
                let _ = permit.finish();
            }
        });
    }
    assert_eq!((stage.slots(), stage.knee()), (1, None));
    sleep(5_000 * MS).await;
    let knee = stage.knee().expect("it is found within 5 s");
    assert!((2..=4).contains(&knee), "{knee}");
}
