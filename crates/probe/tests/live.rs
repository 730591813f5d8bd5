//! Profiles real servers on loopback. If the kernel or the user's permissions do not allow a test,
//! it prints a message and is skipped.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]

#[path = "../examples/injected/server.rs"]
#[allow(dead_code, reason = "only the example uses all of it")]
mod server;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use curtail_probe::app::App;
use curtail_probe::binary::BinaryError;
use curtail_probe::live::{LiveError, Options, Session, Target};
use curtail_probe::profile::{Evidence, Profile, Sampling};
use server::{Delays, On, REQUEST};

/// Allows one profile at a time, because each one uses system-wide statistics.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn options(app: App) -> Options {
    Options {
        app,
        sampling: Sampling::OneIn(1),
        slice: Duration::from_millis(50),
        duration: Duration::from_millis(600),
        connections: 64,
        allow_slow: false,
    }
}

/// Whether this machine cannot run the test. Prints the reason.
fn is_skipped(error: &LiveError) -> bool {
    let is_skipped = matches!(
        error,
        LiveError::NoBtf
            | LiveError::NoPermission
            | LiveError::Lockdown(_)
            | LiveError::NoTracepoint(_)
    );
    if is_skipped {
        println!("SKIPPED: {error}");
    }
    is_skipped
}

/// Starts a session. `None` if this machine does not allow it.
fn attach(address: SocketAddr, options: Options) -> Option<Session> {
    let target =
        Target::find(std::process::id(), Some(address.port())).expect("this process listens");
    match Session::attach(target, options) {
        Ok(session) => Some(session),
        Err(error) if is_skipped(&error) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Profiles a server with these delays while a client keeps it busy.
fn profiled(
    search: On,
    delays: impl FnMut() -> Delays + Send + 'static,
    options: Options,
    client: impl FnOnce(SocketAddr, Box<dyn Fn() -> bool>) + Send + 'static,
) -> Option<Profile> {
    profiled_with_truth(search, delays, options, client).map(|(profile, _)| profile)
}

/// Like [`profiled`], but also returns the times that the server measured.
fn profiled_with_truth(
    search: On,
    delays: impl FnMut() -> Delays + Send + 'static,
    options: Options,
    client: impl FnOnce(SocketAddr, Box<dyn Fn() -> bool>) + Send + 'static,
) -> Option<(Profile, Vec<server::Served>)> {
    let _turn = turn();
    let (address, serving) = server::serve(search, delays, || {});
    let session = attach(address, options);
    let stop = Arc::new(AtomicBool::new(session.is_none()));
    let goes_on = Arc::clone(&stop);
    let client = std::thread::spawn(move || {
        client(address, Box::new(move || !goes_on.load(Ordering::Relaxed)));
    });
    let profile = session.map(|session| session.run(&AtomicBool::new(false), |_| {}));
    stop.store(true, Ordering::Relaxed);
    client.join().expect("the client ends");
    let served = serving.join().expect("the server ends");
    profile.map(|profile| (profile.expect("the kernel accepts it"), served))
}

#[test]
fn every_stage_has_at_least_what_was_injected_and_the_total_is_their_sum() {
    let delays = || [30_000, 60_000, 90_000, 120_000];
    let Some(profile) =
        profiled(On::Same, delays, options(server::app("live", On::Same)), server::request)
    else {
        return;
    };
    let whole = profile.whole();
    assert!(profile.requests() > 100, "{profile:?}");
    assert_eq!(profile.stages[2..6], ["tcp-to-socket", "parse", "search", "respond"]);
    for (stage, least) in [(2, 30_000.0), (3, 60_000.0), (4, 90_000.0), (5, 120_000.0)] {
        let median = whole.histograms[stage].quantile(0.5).expect("requests");
        // The bounds are wide because the machine also does other work.
        assert!((least * 0.97..least * 4.0).contains(&median), "stage {stage}: {median}");
    }
    let means: f64 = (0..profile.stages.len()).map(|stage| whole.moments.mean(stage)).sum();
    assert!((means / whole.moments.mean(profile.total()) - 1.0).abs() < 1e-9);
    let shares: f64 = (0..profile.stages.len())
        .map(|stage| whole.moments.covariance(stage, profile.total()))
        .sum();
    assert!((shares / whole.moments.variance(profile.total()) - 1.0).abs() < 1e-9);
    assert!(whole.histograms.iter().all(|histogram| histogram.count() == profile.requests()));
    assert!(!profile.sampled.is_empty() && profile.check().is_ok());
    let cost = profile.cost.expect("it is calibrated");
    assert!(cost.ns_per_request > 100.0 && cost.share > 0.0);
}

#[test]
fn requests_between_calibration_and_profile_are_excluded() {
    let options = options(server::app("live", On::Same));
    let both = profiled_with_truth(On::Same, || [0; 4], options, server::request);
    let Some((profile, served)) = both else { return };
    let inside = served.iter().filter(|served| served.is_in(&profile)).count();
    assert!(profile.requests() <= inside as u64, "{} of {inside}", profile.requests());
    let ends = profile.windows.iter().map(|window| window.start_ns + window.length_ns);
    assert!(
        profile
            .windows
            .iter()
            .skip(1)
            .map(|window| window.start_ns)
            .eq(ends.take(profile.windows.len() - 1))
    );
}

#[test]
fn pipelined_requests_are_joined_with_their_own_packets() {
    // Three requests in separate packets, 2 ms apart, are all read at once. The first one has
    // waited 4 ms longer than the last one.
    let client = |address: SocketAddr, goes_on: Box<dyn Fn() -> bool>| {
        let mut connection = TcpStream::connect(address).expect("connected");
        connection.set_nodelay(true).expect("an option");
        let mut responses = [0; 3 * REQUEST];
        while goes_on() {
            for _ in 0..3 {
                connection.write_all(&[b'q'; REQUEST]).expect("sent");
                std::thread::sleep(Duration::from_millis(2)); // tidy: real time
            }
            connection.read_exact(&mut responses).expect("received");
        }
    };
    let delays = || [8_000_000, 0, 0, 0];
    let Some(profile) = profiled(On::Same, delays, options(server::app("live", On::Same)), client)
    else {
        return;
    };
    let batch =
        profile.evidence.iter().position(|&of| of == Evidence::Batch).expect("it is evidence");
    let waited = |place: u64| {
        let of = profile.sampled.iter().filter(|whole| whole.evidence[batch] == place);
        let waits: Vec<u64> = of.map(|whole| whole.stages_ns[2]).collect();
        assert!(waits.len() > 5, "{place}: {} of {}", waits.len(), profile.sampled.len());
        waits.iter().sum::<u64>() as f64 / waits.len() as f64
    };
    let (first, last) = (waited(0), waited(2));
    assert!(first - last > 3e6, "{first} and {last}");
}

#[test]
fn requests_are_followed_to_other_threads_by_their_keys() {
    let delays = || [0, 50_000, 300_000, 0];
    let options = options(server::app("live", On::Other));
    let Some(profile) = profiled(On::Other, delays, options, server::request) else { return };
    let whole = profile.whole();
    for (stage, least) in [(3, 50_000.0), (4, 300_000.0)] {
        let median = whole.histograms[stage].quantile(0.5).expect("requests");
        // Starting a thread takes time.
        assert!((least * 0.97..least + 600_000.0).contains(&median), "stage {stage}: {median}");
    }
}

#[test]
fn an_unknown_server_has_one_stage_between_read_and_write() {
    let delays = || [0, 100_000, 100_000, 100_000];
    let Some(profile) = profiled(On::Same, delays, options(App::unknown()), server::request) else {
        return;
    };
    assert_eq!(profile.stages.len(), 5);
    let median = profile.whole().histograms[3].quantile(0.5).expect("requests");
    assert!((290_000.0..1_200_000.0).contains(&median), "{median}");
}

#[test]
fn one_in_four_slices_stamps_less_than_half_of_the_time() {
    let options =
        Options { sampling: Sampling::OneIn(4), ..options(server::app("live", On::Same)) };
    let delays = || [0, 20_000, 20_000, 20_000];
    let Some(profile) = profiled(On::Same, delays, options, server::request) else { return };
    let stamped: u64 = profile.windows.iter().map(|window| window.length_ns).sum();
    let (first, last) = (&profile.windows[0], &profile.windows[profile.windows.len() - 1]);
    let elapsed = last.start_ns + last.length_ns - first.start_ns;
    assert!(stamped * 2 < elapsed, "{stamped} of {elapsed}");
    assert_eq!(profile.cost.expect("it is calibrated").one_in, 4);
}

#[test]
fn connections_that_the_server_closed_are_forgotten() {
    let _turn = turn();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
    let address = listener.local_addr().expect("it is bound");
    let Some(session) = attach(address, options(App::unknown())) else { return };
    let stop = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&stop);
    // Opens one connection after the other, more in total than the table has room for. The server
    // closes first, as nginx does after its maximum number of requests.
    let serving = std::thread::spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            let mut client = TcpStream::connect(address).expect("connected");
            let (mut server, _) = listener.accept().expect("a client");
            let mut buffer = [0; REQUEST];
            client.write_all(&buffer).expect("sent");
            server.read_exact(&mut buffer).expect("a request");
            server.write_all(&buffer).expect("the client reads");
            drop(server);
            client.read_exact(&mut buffer).expect("a response");
        }
    });
    let profile = session.run(&AtomicBool::new(false), |_| {}).expect("the kernel accepts it");
    stop.store(true, Ordering::Relaxed);
    serving.join().expect("the server ends");
    assert!(profile.requests() > 200, "{}", profile.requests());
    let full = profile.lost.iter().find(|lost| lost.reason.contains("connection"));
    assert_eq!(full, None);
}

/// A function that no request passes.
#[inline(never)]
fn avoided(value: u64) -> u64 {
    std::hint::black_box(value) ^ 1
}

#[test]
fn without_requests_the_error_reports_how_far_packets_came() {
    let mark = "name = 'a'\nresponse = 'r'\n[[mark]]\nstage = 's'\nfunction = 'live::avoided'";
    let app = App::parse("test", mark).expect("an application");
    let options = || Options { allow_slow: true, ..options(app.clone()) };
    assert_eq!(std::hint::black_box(avoided as fn(u64) -> u64)(2), 3);
    let _turn = turn();
    let (address, serving) = server::serve(On::Same, || [0; 4], || {});
    let why = |session: Session| {
        session.run(&AtomicBool::new(false), |_| {}).map_err(|error| error.to_string())
    };
    if let Some(session) = attach(address, options()) {
        let why = why(session).expect_err("nothing came");
        assert!(why.contains(&format!("no packet reached port {}", address.port())), "{why}");
    }
    let stop = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&stop);
    let client = std::thread::spawn(move || {
        server::request(address, Box::new(move || !ended.load(Ordering::Relaxed)));
    });
    if let Some(session) = attach(address, options()) {
        let why = why(session).expect_err("none passed the mark");
        assert!(why.contains("none of them passed live::avoided"), "{why}");
    }
    stop.store(true, Ordering::Relaxed);
    client.join().expect("the client ends");
    serving.join().expect("the server ends");
}

#[test]
fn the_maximum_number_of_marks_passes_the_verifier() {
    let mark = |at: usize, more: &str| {
        format!("[[mark]]\nstage = 's{at}'\nfunction = 'live::server::searched'\n{more}\n")
    };
    let first = mark(0, "key = 5\nunread = { argument = 3, offset = 9 }");
    let others: String = (1..4).map(|at| mark(at, "key = 2")).collect();
    let app = App::parse("test", &format!("name = 'a'\nresponse = 'r'\n{first}{others}"))
        .expect("an application");
    assert_eq!(app.mark.len(), 4);
    let _turn = turn();
    let (address, serving) = server::serve(On::Same, || [0; 4], || {});
    drop(attach(address, options(app)));
    drop(TcpStream::connect(address).expect("connected"));
    serving.join().expect("the server ends");
}

/// A server process. The environment variable CURTAIL contains the path of the program. Dropping
/// this kills the process.
struct Process {
    child: Child,
    address: String,
}

impl Process {
    fn start(program: &str, arguments: &[&str]) -> Process {
        let mut command = Command::new(program);
        command.args(arguments).arg("--tied-to-stdin");
        let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = streams.spawn().expect("CURTAIL is a program");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it prints where it listens");
        let address = line.trim().strip_prefix("listening on ").expect(&line);
        Process { address: address.to_owned(), child }
    }

    fn profiled(&self, app: &str) -> Result<Profile, LiveError> {
        let app = App::named(app).expect("it is built in");
        let session = Session::attach(Target::find(self.child.id(), None)?, options(app))?;
        session.run(&AtomicBool::new(false), |_| {})
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill().and_then(|()| self.child.wait()));
    }
}

#[test]
fn requests_pass_the_marks_of_the_proxy_and_of_leaves() {
    let _turn = turn();
    let Ok(program) = std::env::var("CURTAIL") else {
        println!("SKIPPED: set CURTAIL to a program with `curtail leaf` and `curtail proxy`");
        return;
    };
    let leaf = Process::start(&program, &["leaf", "--listen", "127.0.0.1:0"]);
    let config = std::env::temp_dir().join(format!("curtail-own-{}.toml", std::process::id()));
    let text = format!(
        "[listen]\nhttp = \"127.0.0.1:0\"\nadmin = false\n[[service]]\nname = \"s\"\npolicy = \"psq\"\nslots = 1\n\
         [[service.shard]]\nname = \"0\"\nreplicas = [\"{}\"]\n",
        leaf.address
    );
    std::fs::write(&config, text).expect("a place for temporary files");
    let path = config.to_str().expect("it is text");
    let proxy = Process::start(&program, &["proxy", "--config", path, "--announce"]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = TcpStream::connect(&proxy.address).expect("connected");
            let request = b"GET /search?q=tail HTTP/1.1\r\nhost: a\r\n\r\n";
            while !stop.load(Ordering::Relaxed) {
                connection.write_all(request).expect("sent");
                let got = connection.read(&mut [0; 65_536]).expect("a response");
                assert!(got > 0, "the proxy has closed the connection");
            }
        });
        let profiles = [proxy.profiled("curtail-proxy"), leaf.profiled("curtail-leaf")];
        stop.store(true, Ordering::Relaxed);
        for (profile, marks) in profiles.into_iter().zip([2, 3]) {
            let profile = match profile {
                Err(error) if is_skipped(&error) => continue,
                profile => profile.expect("requests pass"),
            };
            assert!(profile.requests() > 100, "{} requests", profile.requests());
            let whole = profile.whole();
            // A stage has zero length if the request does not pass the mark that ends it. A leaf
            // with a single client has no queue.
            let stages = (3..3 + marks).filter(|&stage| profile.stages[stage] != "queue");
            for stage in stages.chain([3 + marks]) {
                let mean = whole.moments.mean(stage);
                assert!(mean > 500.0, "{}: {mean} ns", profile.stages[stage]);
            }
        }
    });
    drop(std::fs::remove_file(config));
}

#[test]
fn errors_name_what_cannot_be_attached() {
    let (address, serving) = server::serve(On::Same, || [0; 4], || {});
    let find = |port| Target::find(std::process::id(), Some(port));
    let place = |text: &str| {
        let app = App::parse(
            "test",
            &format!("name = 'a'\nresponse = 'r'\n[[mark]]\nstage = 's'\n{text}"),
        )
        .expect(text);
        let session = Session::attach(find(address.port()).expect("it listens"), options(app));
        session.err().map(|error| error.to_string()).unwrap_or_default()
    };
    let _turn = turn();
    assert!(place("function = 'live::server::parse'").contains("there is live::server::parsed"));
    assert!(place("tracepoint = 'a:b'").contains("it has none"));
    assert!(place("function = 'f'\nlibrary = 'libnone.so'").contains("libnone.so"));
    assert!(
        matches!(find(1), Err(LiveError::OtherPort { ports, .. }) if ports.contains(&address.port()))
    );
    assert!(matches!(Target::find(u32::MAX >> 1, None), Err(LiveError::NoProcess(_))));
    assert!(matches!(
        Target::find(1, Some(1)),
        Err(LiveError::OtherPort { .. } | LiveError::NotAllowed(_))
    ));
    let stripped = LiveError::Binary { path: "/bin/a".into(), why: BinaryError::Stripped };
    assert!(stripped.to_string().contains("debug symbols") && stripped.is_bad_input());
    drop(TcpStream::connect(address).expect("connected"));
    serving.join().expect("the server ends");
}
