//! The configurations, but for Envoy's. Where a proxy can probe its servers, all do so alike, for
//! that takes CPU too.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use super::peer::Upstream;

pub(super) fn curtail(upstream: &Upstream) -> String {
    let Upstream { servers, slots } = upstream;
    let replicas: Vec<String> = servers.iter().map(|server| format!("\"{server}\"")).collect();
    format!(
        "[listen]\nhttp = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n\n[[service]]\n\
         name = \"leaves\"\npolicy = \"psq\"\nslots = {slots}\ntimeout = \"60s\"\n\
         attempt_timeout = \"60s\"\ncancel_timeout = \"60s\"\nqueue = 4096\n\
         health = {{ path = \"/health\", interval = \"250ms\", timeout = \"500ms\" }}\n\n\
         [[service.shard]]\nname = \"0\"\nreplicas = [{}]\n",
        replicas.join(", ")
    )
}

/// With `maxconn` per server a query that finds all servers busy waits in the backend's one queue
/// until one is free: per-shard queuing.
pub(super) fn haproxy(listen: SocketAddr, upstream: &Upstream) -> String {
    let mut text = format!(
        "global\n  nbthread 1\n  maxconn 4096\n\
         defaults\n  mode http\n  http-reuse always\n  retries 0\n  timeout connect 5s\n  \
         timeout client 60s\n  timeout server 60s\n  timeout queue 60s\n  timeout check 500ms\n\
         frontend clients\n  bind {listen}\n  default_backend leaves\n\
         backend leaves\n  balance leastconn\n  option httpchk GET /health\n"
    );
    for (number, server) in upstream.servers.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  server leaf{number} {server} maxconn {} check inter 250ms fall 2 rise 1",
            upstream.slots
        );
    }
    text
}

/// The free edition can neither queue nor probe.
pub(super) fn nginx(listen: SocketAddr, upstream: &Upstream, folder: &Path) -> String {
    let mut text = frame(folder);
    text.push_str("  upstream leaves {\n    least_conn;\n");
    for server in &upstream.servers {
        let _ = writeln!(text, "    server {server} max_fails=0;");
    }
    let _ = write!(
        text,
        "    keepalive 64;\n    keepalive_requests 1000000000;\n  }}\n  \
         server {{\n    listen {listen};\n    location / {{\n      proxy_pass http://leaves;\n      \
         proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n      \
         proxy_read_timeout 60s;\n    }}\n  }}\n}}\n"
    );
    text
}

/// nginx as a server of tiny answers.
pub(super) fn tiny(listen: &[SocketAddr], folder: &Path) -> String {
    let mut text = frame(folder);
    text.push_str("  server {\n");
    for address in listen {
        let _ = writeln!(text, "    listen {address};");
    }
    text.push_str("    location / { return 200 \"ok\\n\"; }\n  }\n}\n");
    text
}

/// What every nginx here begins with: one process, and nothing outside of the folder.
fn frame(folder: &Path) -> String {
    let mut text = String::from(
        "daemon off;\nmaster_process off;\nerror_log stderr error;\n\
         events { worker_connections 4096; }\nhttp {\n  access_log off;\n  \
         keepalive_requests 1000000000;\n",
    );
    let folder = folder.display();
    let _ = writeln!(text, "  client_body_temp_path {folder}/nginx-body;");
    for kind in ["proxy", "fastcgi", "uwsgi", "scgi"] {
        let _ = writeln!(text, "  {kind}_temp_path {folder}/nginx-{kind};");
    }
    // Before the block is opened: where the process writes its id.
    format!("pid {folder}/nginx-{}.pid;\n{text}", std::process::id())
}
