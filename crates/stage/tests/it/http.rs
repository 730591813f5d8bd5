//! Starts a configuration. The tests only check that a stage of kind `http` is the proxy.

use curtail_stage::config;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

#[tokio::test]
async fn stages_of_all_kinds_start_serve_and_drain() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = server.accept().await {
            let mut head = [0; 1024];
            assert!(client.read(&mut head).await.unwrap() > 0);
            let response = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi";
            client.write_all(response.as_bytes()).await.unwrap();
        }
    });
    let any = "listen = \"127.0.0.1:0\"";
    let text = format!(
        "[[stage]]\nname = \"a\"\nkind = \"http\"\n{any}\nserver = \"{address}\"\n\
         [[stage]]\nname = \"b\"\nkind = \"tcp\"\n{any}\nserver = \"{address}\"\nlisten_low = \"127.0.0.1:0\"\n\
         [[stage]]\nname = \"c\"\nkind = \"get\"\n{any}\npurge = \"127.0.0.1:0\"\n"
    );
    let running = curtail_stage::start(config::parse("f", &text).unwrap(), 1).await.unwrap();
    let addresses: Vec<usize> = running.addresses.iter().map(|(_, all)| all.len()).collect();
    assert_eq!(addresses, [1, 2, 2]);
    let (http, tcp) = (running.addresses[0].1[0], running.addresses[1].1.clone());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(running.run(async { drop(stopped.await) }));
    for to in [http, tcp[0], tcp[1]] {
        let mut client = TcpStream::connect(to).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut response = String::new();
        client.read_to_string(&mut response).await.unwrap();
        assert!(response.starts_with("HTTP/1.1 200 OK") && response.ends_with("hi"), "{response}");
    }
    drop(stop);
    assert_eq!(serving.await.unwrap(), 0);
}

#[tokio::test]
async fn clients_get_an_error_at_once_if_the_server_is_down() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let text = format!(
        "[[stage]]\nname = \"a\"\nkind = \"http\"\nlisten = \"127.0.0.1:0\"\nserver = \"{gone}\"\ntimeout = \"20s\"\n"
    );
    let running = curtail_stage::start(config::parse("f", &text).unwrap(), 1).await.unwrap();
    let address = running.addresses[0].1[0];
    let _serving = tokio::spawn(running.run(std::future::pending()));
    for method in ["GET", "POST"] {
        let mut client = TcpStream::connect(address).await.unwrap();
        let request = format!("{method} / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        client.read_to_string(&mut response).await.unwrap();
        assert!(response.starts_with("HTTP/1.1 502"), "{response}");
    }
}

#[tokio::test]
async fn the_error_names_an_address_that_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    for kind in ["http", "tcp"] {
        let text = format!(
            "[[stage]]\nname = \"a\"\nkind = \"{kind}\"\nlisten = \"{address}\"\nserver = \"127.0.0.1:1\"\n"
        );
        let stages = config::parse("f", &text).unwrap();
        let error = curtail_stage::start(stages, 1).await.unwrap_err().to_string();
        assert!(error.contains("stage \"a\"") && error.contains(&address.to_string()), "{error}");
    }
}
