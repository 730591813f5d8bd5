//! A real server on loopback, with delays that it injects between the places that the profiler stamps, and measures
//! itself: the profiler must see the same.
#![cfg(all(feature = "ebpf", target_os = "linux"))]
#![allow(missing_docs)]

use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use curtail_probe::app::App;
use curtail_probe::live::{Options, Sampling, Session, Target};
use curtail_probe::moments::Moments;

/// Delays of a request, in nanoseconds: before the read, before parsing, before the search, before the response.
type Delays = [u64; 4];

#[inline(never)]
fn parsed(value: u64) -> u64 {
    black_box(black_box(value).wrapping_add(1))
}

#[inline(never)]
fn searched(value: u64) -> u64 {
    black_box(black_box(value).wrapping_add(2))
}

const APP: &str = "
name = 'test'
response = 'respond'
[[mark]]
stage = 'parse'
function = 'live::parsed'
[[mark]]
stage = 'search'
function = 'live::searched'
";

fn spin(until: Instant) -> Instant {
    loop {
        let now = Instant::now();
        if now >= until {
            return now;
        }
        std::hint::spin_loop();
    }
}

/// Serves one connection; returns what each request's delays really were.
fn serve(mut connection: TcpStream, delays: impl Fn(u64) -> Delays) -> Moments {
    let mut seen = Moments::new(5);
    let mut buffer = [0; 64];
    for request in 0.. {
        let mut files = [rustix::event::PollFd::new(&connection, rustix::event::PollFlags::IN)];
        if rustix::event::poll(&mut files, None).is_err() {
            break;
        }
        let nanos = delays(request).map(Duration::from_nanos);
        let start = Instant::now();
        let first = spin(start + nanos[0]);
        if !matches!(connection.read(&mut buffer), Ok(1..)) {
            break;
        }
        let second = spin(first + nanos[1]);
        parsed(request);
        let third = spin(second + nanos[2]);
        searched(request);
        let fourth = spin(third + nanos[3]);
        connection.write_all(b"response").expect("the client reads");
        let ns = |from: Instant, to: Instant| (to - from).as_nanos() as f64;
        let parts = [ns(start, first), ns(first, second), ns(second, third), ns(third, fourth)];
        seen.record(&[parts[0], parts[1], parts[2], parts[3], parts.iter().sum()]);
    }
    seen
}

#[test]
fn try_it() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let target = Target::find(std::process::id(), Some(address.port())).expect("this process listens");
    let options = Options {
        app: App::parse(APP).expect("an application"),
        sampling: Sampling::OneIn(1),
        slice: Duration::from_millis(100),
        duration: Duration::from_secs(3),
        connections: 64,
        allow_slow: true,
    };
    let session = Session::attach(target, options).expect("attached");
    println!("{:?}", session.warnings());
    let stop = Arc::new(AtomicBool::new(false));
    let client = thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            let mut connection = TcpStream::connect(address).expect("connected");
            connection.set_nodelay(true).expect("no delay");
            let mut buffer = [0; 8];
            while !stop.load(Ordering::Relaxed) {
                connection.write_all(b"request").expect("sent");
                connection.read_exact(&mut buffer).expect("received");
            }
        }
    });
    let server = thread::spawn(move || {
        let (connection, _) = listener.accept().expect("a client");
        let _ = connection.as_fd();
        serve(connection, |request| [request % 10 * 3_000, 20_000, request % 7 * 10_000, 5_000])
    });
    let profile = session.run(&AtomicBool::new(false), |_| {}).expect("profiled");
    stop.store(true, Ordering::Relaxed);
    client.join().expect("client");
    let seen = server.join().expect("server");
    let whole = profile.whole();
    println!("{} requests of {}; cost {:?}; lost {:?}", profile.requests(), seen.requests(), profile.cost, profile.lost);
    for (at, stage) in profile.stages.iter().enumerate() {
        println!("{stage:20} {:10.0} {:10.0}", whole.moments.mean(at), whole.moments.variance(at).sqrt());
    }
    for (at, evidence) in profile.evidence.iter().enumerate() {
        let at = at + profile.stages.len();
        println!("{evidence:20?} {:10.1} {:10.1}", whole.moments.mean(at), whole.moments.variance(at).sqrt());
    }
    for at in 0..5 {
        println!("true {:10.0} {:10.0}", seen.mean(at), seen.variance(at).sqrt());
    }
}
