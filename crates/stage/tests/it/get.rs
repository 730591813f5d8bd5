//! Tests of the `get` protocol: classes, purges and errors.

use bytes::{Bytes, BytesMut};
use curtail_kernel::stage::Priority;
use curtail_kernel::{Limits, Policy, Topology, rng};
use curtail_runtime::{Cell, Query, Timers};
use curtail_stage::disk::{Disk, PIECE_BYTES};
use curtail_stage::get::{
    Client, ClientOptions, Get, Key, Load, Request, Response, Server, ServerOptions, Status,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::eventually;

/// More bytes than the sockets can buffer, so a client that does not read keeps its slot.
const LONG: u64 = 1 << 29;

async fn server(options: ServerOptions) -> Server {
    let any = "127.0.0.1:0".parse().unwrap();
    Server::bind(any, any, options).await.unwrap()
}

fn one_slot() -> ServerOptions {
    ServerOptions { slots: 1, queue: 2, ..ServerOptions::default() }
}

/// A client that can send any message.
struct Raw(TcpStream);

impl Raw {
    async fn new(server: &Server) -> Self {
        Self(TcpStream::connect(server.addresses().data).await.unwrap())
    }

    async fn send(&mut self, request: Request) {
        let mut bytes = BytesMut::new();
        request.write(&mut bytes);
        self.0.write_all(&bytes).await.unwrap();
    }

    async fn get(&mut self, job: u64, priority: Priority, length: u64) {
        let (name, offset, announce) = (Bytes::new(), 0, false);
        self.send(Request::Get(Get { job, priority, name, offset, length, announce })).await;
    }

    async fn receive(&mut self) -> Response {
        let mut head = [0; 24];
        self.0.read_exact(&mut head).await.unwrap();
        let response = Response::read(&head).unwrap();
        let mut data = vec![0; response.length as usize];
        self.0.read_exact(&mut data).await.unwrap();
        response
    }
}

async fn load(server: &Server, running: u32, waiting: u32) {
    let wanted = Load { running, waiting };
    eventually(&format!("{wanted:?}"), async || server.load() == wanted).await;
}

#[tokio::test]
async fn a_primary_takes_the_slot_of_a_duplicate_that_goes_on_after_it() {
    let server = server(one_slot()).await;
    let (mut low, mut high) = (Raw::new(&server).await, Raw::new(&server).await);
    low.get(1, Priority::Low, LONG).await;
    load(&server, 1, 0).await;
    high.get(2, Priority::High, 100).await;
    // The duplicate can be interrupted only between two pieces, and sends one piece each time its
    // client reads.
    let (mut read, mut first) = (0, None);
    while first.is_none() {
        tokio::select! {
            response = low.receive() => read += response.length,
            response = high.receive() => first = Some(response),
        }
    }
    let done = Response { status: Status::Data, more: false, job: 2, length: 100 };
    assert_eq!(first, Some(done));
    assert!(read < LONG);
}

#[tokio::test]
async fn a_purged_job_leaves_the_queue_without_a_response_and_ends_if_it_runs() {
    let server = server(one_slot()).await;
    let mut client = Raw::new(&server).await;
    let mut purges = TcpStream::connect(server.addresses().purge).await.unwrap();
    let mut purge = async |job| {
        let mut bytes = BytesMut::new();
        Request::Purge(job).write(&mut bytes);
        purges.write_all(&bytes).await.unwrap();
    };
    client.get(1, Priority::High, LONG).await;
    load(&server, 1, 0).await;
    client.get(2, Priority::High, 100).await;
    client.get(3, Priority::High, 100).await;
    load(&server, 1, 2).await;
    // One job is purged twice. Another one is purged before it arrives, which is possible because
    // purges have a separate connection.
    for job in [2, 2, 99] {
        purge(job).await;
    }
    load(&server, 1, 1).await;
    let mut late = Raw::new(&server).await;
    late.get(99, Priority::Low, 100).await;
    assert_eq!(late.receive().await.status, Status::Purged);
    purge(1).await;
    let mut response = client.receive().await;
    while response.more {
        response = client.receive().await;
    }
    assert_eq!((response.job, response.status), (1, Status::Purged));
    assert_eq!(client.receive().await.job, 3);
    load(&server, 0, 0).await;
}

#[tokio::test]
async fn jobs_are_refused_if_the_queue_is_full_or_their_id_is_taken() {
    let server = server(one_slot()).await;
    let (mut busy, mut client) = (Raw::new(&server).await, Raw::new(&server).await);
    busy.get(1, Priority::High, LONG).await;
    load(&server, 1, 0).await;
    for job in [2, 3] {
        client.get(job, Priority::High, 1).await;
    }
    load(&server, 1, 2).await;
    for (job, status) in [(4, Status::Refused), (1, Status::Reused), (2, Status::Reused)] {
        client.get(job, Priority::High, 1).await;
        let response = client.receive().await;
        assert_eq!((response.job, response.status, response.more), (job, status, false));
    }
    // The jobs of a client end with its connection, whether or not they are running.
    drop(client);
    load(&server, 1, 0).await;
    drop(busy);
    load(&server, 0, 0).await;
}

#[tokio::test]
async fn a_client_that_reads_or_sends_nothing_loses_its_connection() {
    let idle_timeout = std::time::Duration::from_millis(50);
    let server = server(ServerOptions { idle_timeout, ..one_slot() }).await;
    let (mut silent, mut deaf) = (Raw::new(&server).await, Raw::new(&server).await);
    deaf.get(1, Priority::High, LONG).await;
    load(&server, 1, 0).await;
    load(&server, 0, 0).await;
    assert!(matches!(silent.0.read(&mut [0]).await, Ok(0) | Err(_)));
    // After its first request, a client may be silent for any length of time.
    let mut client = Raw::new(&server).await;
    for job in [3, 4] {
        client.get(job, Priority::High, 10).await;
        assert_eq!(client.receive().await.length, 10);
        tokio::time::sleep(4 * idle_timeout).await; // tidy: real time
    }
}

#[tokio::test]
async fn a_draining_server_ends_its_jobs_and_refuses_others() {
    let server = server(one_slot()).await;
    let mut client = Raw::new(&server).await;
    client.get(1, Priority::High, LONG).await;
    load(&server, 1, 0).await;
    let draining = server.drain(std::time::Duration::from_secs(60));
    let served = async {
        let mut late = Raw::new(&server).await;
        late.get(2, Priority::High, 10).await;
        assert_eq!(late.receive().await.status, Status::Refused);
        while client.receive().await.more {}
    };
    assert_eq!(tokio::join!(draining, served).0, 0);
    let mut deaf = Raw::new(&server).await;
    deaf.get(3, Priority::High, 10).await;
    assert_eq!(deaf.receive().await.status, Status::Refused);
}

#[tokio::test]
async fn invalid_bytes_close_their_connection_and_no_other() {
    let server = server(one_slot()).await;
    let mut nonsense = Raw::new(&server).await;
    nonsense.0.write_all(&[7; 64]).await.unwrap();
    let mut received = Vec::new();
    // The connection is reset if the server has not read everything.
    let _ = nonsense.0.read_to_end(&mut received).await;
    assert!(received.is_empty());
    let mut client = Raw::new(&server).await;
    client.get(1, Priority::Low, 10).await;
    assert_eq!(client.receive().await.length, 10);
}

/// Returns the library's client, which is controlled by a policy.
fn cell(servers: &[Server], policy: &str, options: ClientOptions) -> (Cell<Client>, Client) {
    let client = Client::new(servers.iter().map(Server::addresses), options).unwrap();
    let policy = Policy::parse(policy, None).unwrap();
    let topology = Topology::replicated(servers.len() as u32, 1);
    let kernel =
        policy.build(&topology, Limits { cancel: true, ..Limits::default() }, rng(1)).unwrap();
    (Cell::new(kernel, client.clone(), Timers::precise()), client)
}

#[tokio::test]
async fn files_arrive_whole_by_either_copy_and_losers_are_purged() {
    let folder = tempfile::tempdir().unwrap();
    let data: Vec<u8> = (0..3 * PIECE_BYTES + 5).map(|at| (at % 251) as u8).collect();
    std::fs::write(folder.path().join("file"), &data).unwrap();
    let with_files = || {
        let disk = Some(Disk::new(folder.path(), 2, 100).unwrap());
        ServerOptions { disk, ..ServerOptions::default() }
    };
    let servers = [server(with_files()).await, server(with_files()).await];
    for policy in ["das", "tied", "least-outstanding"] {
        let options = ClientOptions { announce: policy == "tied", ..ClientOptions::default() };
        let (cell, client) = cell(&servers, policy, options);
        let (name, offset, length) = (Bytes::from_static(b"file"), 3, data.len() as u64 - 3);
        let key = Key { name, offset, length };
        for _ in 0..20 {
            let response = cell.query(Query::new(client.job(key.clone()))).await.unwrap();
            assert!(response.response.concat() == data[3..], "{policy}");
        }
        for server in &servers {
            load(server, 0, 0).await;
        }
        let absent = Key { name: Bytes::from_static(b"../file"), offset: 0, length: 1 };
        assert!(cell.query(Query::new(client.job(absent))).await.is_err());
    }
}

#[tokio::test]
async fn a_duplicate_responds_while_the_primary_waits() {
    let servers = [server(one_slot()).await, server(one_slot()).await];
    let mut busy = Raw::new(&servers[0]).await;
    busy.get(1, Priority::High, LONG).await;
    load(&servers[0], 1, 0).await;
    let (cell, client) = cell(&servers, "das", ClientOptions::default());
    for _ in 0..20 {
        let response = cell.query(Query::new(client.job(Key::made_up(50_000)))).await.unwrap();
        assert_eq!(response.server.index(), 1);
    }
    load(&servers[0], 1, 0).await;
}

#[tokio::test]
async fn a_lost_server_fails_its_jobs_and_the_next_request_reconnects() {
    let first = server(ServerOptions::default()).await;
    let addresses = first.addresses();
    let only = [first];
    let (cell, client) = cell(&only, "least-outstanding", ClientOptions::default());
    let query = async || cell.query(Query::new(client.job(Key::made_up(10)))).await;
    assert!(query().await.is_ok());
    drop(only);
    assert!(query().await.is_err());
    // The tasks of the old server may take a moment to close their sockets.
    let again = std::sync::Mutex::new(None);
    eventually("the sockets are free", async || {
        let bound = Server::bind(addresses.data, addresses.purge, ServerOptions::default()).await;
        *again.lock().unwrap() = bound.ok();
        again.lock().unwrap().is_some()
    })
    .await;
    eventually("it answers", async || query().await.is_ok()).await;
}
