//! The profiler on this project's own servers, `curtail leaf` behind `curtail proxy`: processes of the program that the
//! variable CURTAIL names. Where there is none, or the kernel or this user's rights do not allow it, the test says so.
#![cfg(all(feature = "ebpf", target_os = "linux"))]
#![allow(missing_docs)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use curtail_probe::app::App;
use curtail_probe::live::{LiveError, Options, Sampling, Session, Target};
use curtail_probe::profile::Profile;

/// Killed when this is dropped.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(program: &str, arguments: &[&str]) -> Server {
        let mut command = Command::new(program);
        command.args(arguments).arg("--tied-to-stdin");
        let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = streams.spawn().expect("CURTAIL is a program");
        let mut line = String::new();
        let said = child.stdout.take().expect("it is piped");
        BufReader::new(said).read_line(&mut line).expect("it says where it listens");
        let address = line.trim().strip_prefix("listening on ").expect(&line);
        Server { address: address.to_owned(), child }
    }

    fn profiled(&self, app: &str) -> Result<Profile, LiveError> {
        let app = App::named(app).expect("it is built in");
        let options = Options {
            app,
            sampling: Sampling::OneIn(1),
            slice: Duration::from_millis(50),
            duration: Duration::from_millis(600),
            connections: 64,
            allow_slow: false,
        };
        let session = Session::attach(Target::find(self.child.id(), None)?, options)?;
        session.run(&AtomicBool::new(false), |_| {})
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill().and_then(|()| self.child.wait()));
    }
}

#[test]
fn requests_pass_the_marks_of_the_proxy_and_of_leaves() {
    let Ok(program) = std::env::var("CURTAIL") else {
        println!("SKIPPED: set CURTAIL to a program with `curtail leaf` and `curtail proxy`");
        return;
    };
    let leaf = Server::start(&program, &["leaf", "--listen", "127.0.0.1:0"]);
    let config = std::env::temp_dir().join(format!("curtail-own-{}.toml", std::process::id()));
    let text = format!(
        "[listen]\nhttp = \"127.0.0.1:0\"\nadmin = false\n[[service]]\nname = \"s\"\npolicy = \"psq\"\nslots = 1\n\
         [[service.shard]]\nname = \"0\"\nreplicas = [\"{}\"]\n",
        leaf.address
    );
    std::fs::write(&config, text).expect("a place for temporary files");
    let path = config.to_str().expect("it is text");
    let proxy = Server::start(&program, &["proxy", "--config", path, "--announce"]);
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
                Err(
                    error @ (LiveError::NoBtf
                    | LiveError::NoPermission
                    | LiveError::Lockdown(_)
                    | LiveError::NoTracepoint(_)),
                ) => {
                    println!("SKIPPED: {error}");
                    continue;
                }
                profile => profile.expect("requests pass"),
            };
            assert!(profile.requests() > 100, "{} requests", profile.requests());
            let whole = profile.whole();
            // A mark that is not passed ends a stage of no time. A leaf that serves one client has no queue.
            let stages = (3..3 + marks).filter(|&stage| profile.stages[stage] != "queue");
            for stage in stages.chain([3 + marks]) {
                let mean = whole.moments.mean(stage);
                assert!(mean > 500.0, "{}: {mean} ns", profile.stages[stage]);
            }
        }
    });
    drop(std::fs::remove_file(config));
}
