//! Servers that follow a script.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

/// What a server does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Responds with this status and body.
    Respond(u16, Vec<u8>),
    /// Reports this number of requests in flight, and this latency in ms.
    Load(u32, u32),
    /// Responds with 200, once the gate is open.
    Later(Gate),
    /// Sends a part of the body that it declares, and closes the connection.
    BreakOff,
    /// Closes the connection.
    Reset,
    /// Never responds.
    Hang,
}

/// Holds responses back until it is open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn wait(&self) {
        let closed = |open: &mut bool| !*open;
        let _open = self.0.1.wait_while(self.0.0.lock().unwrap(), closed).unwrap();
    }
}

/// A request that a server has received.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// `METHOD TARGET`.
    pub(crate) line: String,
    /// The header fields, in lower case.
    pub(crate) fields: Vec<String>,
    pub(crate) body: Vec<u8>,
}

/// A server.
#[derive(Clone)]
pub(crate) struct Leaf {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    received: Vec<Received>,
    now: usize,
    most: usize,
    cancelled: usize,
}

impl Leaf {
    /// Starts a server that does the same with all requests.
    pub(crate) fn start(act: Act) -> Self {
        Self::scripted(move |_| act.clone())
    }

    /// Starts a server that responds with its name, which is also its address.
    pub(crate) fn good() -> Self {
        Self::start(Act::Respond(200, b"good".to_vec()))
    }

    /// Starts a server with a script for each request.
    pub(crate) fn scripted(script: impl Fn(&Received) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let leaf = Self { address, state: Arc::default() };
        let (script, server) = (Arc::new(script), leaf.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, server) = (Arc::clone(&script), server.clone());
                std::thread::spawn(move || while server.serve(&stream, &*script) {});
            }
        });
        leaf
    }

    /// Serves a request. Returns whether the connection stays open.
    fn serve(&self, stream: &TcpStream, script: &dyn Fn(&Received) -> Act) -> bool {
        let Some(received) = read(stream) else { return false };
        let act = script(&received);
        {
            let mut state = self.state.lock().unwrap();
            state.received.push(received);
            state.now += 1;
            state.most = state.most.max(state.now);
        }
        let stays = self.act(stream, act);
        self.state.lock().unwrap().now -= 1;
        stays
    }

    fn act(&self, mut stream: &TcpStream, act: Act) -> bool {
        let mut respond = |status: u16, body: &[u8], length: usize| {
            let head = format!("HTTP/1.1 {status} Any\r\ncontent-length: {length}\r\n\r\n");
            stream.write_all(&[head.as_bytes(), body].concat()).is_ok()
        };
        match act {
            Act::Respond(status, body) => respond(status, &body, body.len()),
            Act::Load(in_flight, latency) => {
                let report = format!(
                    "HTTP/1.1 200 Any\r\ncontent-length: 0\r\nendpoint-load-metrics: TEXT \
                     named_metrics.in_flight={in_flight},named_metrics.latency_ms={latency}\r\n\r\n"
                );
                stream.write_all(report.as_bytes()).is_ok()
            }
            Act::Later(gate) => {
                gate.wait();
                respond(200, b"late", 4)
            }
            Act::BreakOff => {
                respond(200, b"begun", 100);
                false
            }
            Act::Reset => false,
            Act::Hang => {
                // The client sends nothing more, so this returns when it resets the connection.
                let _ = stream.read(&mut [0]);
                self.state.lock().unwrap().cancelled += 1;
                false
            }
        }
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.state.lock().unwrap().received.clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.state.lock().unwrap().received.len()
    }

    /// Returns the largest number of requests that it has served at once.
    pub(crate) fn most(&self) -> usize {
        self.state.lock().unwrap().most
    }

    /// Returns the number of requests whose client has left.
    pub(crate) fn cancelled(&self) -> usize {
        self.state.lock().unwrap().cancelled
    }
}

fn read(stream: &TcpStream) -> Option<Received> {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let line = lines.remove(0).trim_end_matches(" HTTP/1.1").to_owned();
    let fields: Vec<_> = lines.iter().map(|line| line.to_ascii_lowercase()).collect();
    let length = fields.iter().find_map(|field| field.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    Some(Received { line, fields, body })
}
