//! Bounds of connections, requests, heads, bodies and waits, over a real socket: each is told with its status, in the dialect,
//! and the gateway serves on.

use super::model::{Deed, Server, last, until};
use super::*;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// A house with its door open.
pub(super) struct Served {
    pub(super) house: House,
    pub(super) address: SocketAddr,
    _stop: oneshot::Sender<()>,
}

pub(super) async fn served(change: impl FnOnce(&mut Config)) -> Served {
    let house = house_with(change).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(serve(Arc::clone(&house.api), listener, async move { drop(stopped.await) }));
    Served { house, address, _stop: stop }
}

/// Asks this model server.
pub(super) fn asks(config: &mut Config, server: &Server) {
    config.model.provider = "openai".into();
    config.model.base_url = Some(server.base.clone());
    config.model.model = Some("m".into());
}

impl Served {
    pub(super) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// A connection that has sent this.
    pub(super) async fn sent(&self, text: &str) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// Everything that comes until the other side closes.
    async fn exchange(&self, text: &str) -> String {
        rest(self.sent(text).await).await
    }
}

pub(super) async fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let reading = stream.read_to_end(&mut bytes);
    tokio::time::timeout(Duration::from_secs(60), reading).await.expect("it is closed").unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A request for a turn, as bytes.
pub(super) fn turn(session: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST {CHAT} HTTP/1.1\r\nhost: localhost\r\nx-engineroom-session: {session}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Status, head and error of an answer.
fn error_of(answer: &str) -> (u16, String, Value) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body: Value = serde_json::from_str(body).unwrap_or_else(|cause| panic!("{cause}: {answer}"));
    for field in ["message", "type", "param", "code", "hint"] {
        assert!(body["error"].get(field).is_some(), "{field}: {answer}");
    }
    (status, head.to_ascii_lowercase(), body["error"].clone())
}

fn check(answer: &str, status: u16, code: &str) {
    let (found, head, error) = error_of(answer);
    assert_eq!((found, &error["code"]), (status, &json!(code)), "{answer}");
    assert!(head.contains("content-type: application/json"), "{head}");
    assert_eq!(head.contains("retry-after: "), [429, 503].contains(&status), "{head}");
}

const CLOSE: &str = "host: localhost\r\nconnection: close\r\n\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_head_is_bounded_and_what_is_none_is_told_so() {
    let served = served(|config| config.api.max_header_bytes = 8192).await;
    let long = format!("GET /healthz HTTP/1.1\r\nx: {}\r\n{CLOSE}", "y".repeat(20_000));
    check(&served.exchange(&long).await, 431, "CE715");
    // The head around the filling has 66 bytes.
    let filled = |bytes: usize| format!("GET /healthz HTTP/1.1\r\nx: {}\r\n{CLOSE}", "y".repeat(bytes - 66));
    assert_eq!(filled(8192).len(), 8192);
    assert!(served.exchange(&filled(8192)).await.contains("200 OK"), "as large as it may be");
    check(&served.exchange(&filled(8193)).await, 431, "CE715");
    let endless = format!("GET /healthz HTTP/1.1\r\nx: {}", "y".repeat(500_000));
    check(&served.exchange(&endless).await, 431, "CE715");
    let many: String = (0..200).map(|n| format!("h{n}: v\r\n")).collect();
    check(&served.exchange(&format!("GET /healthz HTTP/1.1\r\n{many}{CLOSE}")).await, 431, "CE715");
    for nonsense in ["HELLO\r\n\r\n", "GET /healthz HTTP/9.1\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"] {
        check(&served.exchange(nonsense).await, 400, "CE716");
    }
    assert!(served.exchange(&format!("GET /healthz HTTP/1.1\r\n{CLOSE}")).await.contains("200 OK"));
    let wide = super::flood::served(|config| config.api.max_header_bytes = 200_000).await;
    let path = format!("GET /{} HTTP/1.1\r\n{CLOSE}", "p".repeat(70_000));
    check(&wide.exchange(&path).await, 414, "CE715");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_head_is_told_so_and_a_silent_connection_is_closed() {
    let served = served(|config| {
        config.api.header_timeout_ms = 300;
        config.api.idle_timeout_ms = 300;
    })
    .await;
    check(&served.exchange("GET /healthz HT").await, 408, "CE717");
    assert_eq!(served.exchange("").await, "", "nothing was begun, so nothing is said");
    let mut dripping = served.connect().await;
    let drip = async {
        for byte in "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".bytes() {
            if dripping.write_all(&[byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        rest(dripping).await
    };
    check(&drip.await, 408, "CE717");
    let kept = served.exchange("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert!(kept.contains("200 OK") && kept.ends_with("{\"status\":\"ok\"}"), "answered once, then closed: {kept}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_body_is_told_so_whether_it_stops_or_drips() {
    let served = served(|config| {
        config.api.header_timeout_ms = 300;
        config.api.body_timeout_ms = 1_500;
        config.api.min_bytes_per_second = 1_000;
    })
    .await;
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n{{");
    let answer = served.exchange(&head).await;
    check(&answer, 408, "CE708");
    assert!(answer.contains("slower than 1000 bytes"), "{answer}");
    // Fast enough, and never at an end.
    let mut busy = served.sent(&head).await;
    let (mut reader, mut writer) = busy.split();
    let mut answer = String::new();
    let pour = async {
        while writer.write_all(&[b' '; 200]).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = pour => {}
        read = reader.read_to_string(&mut answer) => drop(read),
    }
    check(&answer, 408, "CE708");
    assert!(answer.contains("within 1500 ms"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_and_all_bodies_together_are_bounded() {
    let served = served(|config| {
        config.api.max_body_bytes = 4_000;
        config.api.max_bodies_bytes = 5_000;
    })
    .await;
    let head = |length: usize| format!("POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n");
    check(&served.exchange(&head(1_000_000_000)).await, 413, "CE707");
    let chunked = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{}\r\n0\r\n\r\n",
        8_000,
        " ".repeat(8_000)
    );
    check(&served.exchange(&chunked).await, 413, "CE707");
    let open = served.sent(&format!("{}{}", head(3_900), " ".repeat(3_000))).await;
    until("the first body", || served.house.api.limits.bytes_read() >= 3_000).await;
    check(&served.exchange(&format!("{}{}", head(3_900), " ".repeat(3_000))).await, 503, "CE714");
    drop(open);
    until("the room", || served.house.api.limits.bytes_read() == 0).await;
    let answer =
        served.exchange(&turn("s", &user("Hello?")).replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_bounded_and_a_flood_of_half_heads_passes() {
    let served = served(|config| {
        config.api.max_connections = 20;
        config.api.header_timeout_ms = 1_000;
    })
    .await;
    let mut held = Vec::new();
    for _ in 0..20 {
        held.push(served.sent("GET /healthz HT").await);
    }
    let mut told = 0;
    for _ in 0..100 {
        let mut one = served.sent("GET").await;
        let mut answer = String::new();
        // Beyond those that are told at once, a connection is closed without a word.
        let _ = tokio::time::timeout(Duration::from_secs(20), one.read_to_string(&mut answer)).await;
        if !answer.is_empty() && !answer.contains("408") {
            check(&answer, 503, "CE714");
            told += 1;
        }
    }
    assert!(told > 0, "nobody was told");
    // The half heads run out of time, and everybody is served again.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let mut one = served.sent(&format!("GET /healthz HTTP/1.1\r\n{CLOSE}")).await;
        let mut answer = String::new();
        let _ = one.read_to_string(&mut answer).await;
        if answer.contains("200 OK") {
            break;
        }
        assert!(Instant::now() < deadline, "the places are not free: {answer}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_and_queues_are_bounded_and_whoever_watches_is_answered() {
    let server = Server::start(|request, _| match last(request).contains("hang") {
        true => Deed::Hang,
        false => Deed::Say("well"),
    })
    .await;
    let served = served(|config| {
        asks(config, &server);
        config.api.max_requests = 6;
        config.gateway.queue_per_session = 1;
        config.gateway.queue_total = 2;
    })
    .await;
    let waiting = |number: i64| {
        let metrics = Arc::clone(&served.house.api.metrics);
        move || metrics.render().contains(&format!("engineroom_turns_waiting {number}\n"))
    };
    let one = served.sent(&turn("a", &user("hang"))).await;
    let two = served.sent(&turn("b", &user("hang"))).await;
    let three = served.sent(&turn("c", &user("hang"))).await;
    until("three calls", || server.active() == 3).await;
    let next_a = served.sent(&turn("a", &user("hang"))).await;
    until("one that waits", waiting(1)).await;
    let closing = |session: &str| turn(session, &user("hang")).replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
    check(&served.exchange(&closing("a")).await, 429, "CE602");
    let next_b = served.sent(&turn("b", &user("hang"))).await;
    until("two that wait", waiting(2)).await;
    check(&served.exchange(&closing("c")).await, 503, "CE627");
    let more = served.sent(&turn("d", &user("hang"))).await;
    until("four calls", || server.active() == 4).await;
    check(&served.exchange(&closing("e")).await, 503, "CE714");
    for path in ["/healthz", "/readyz"] {
        assert!(served.exchange(&format!("GET {path} HTTP/1.1\r\n{CLOSE}")).await.contains("200 OK"), "{path}");
    }
    drop((one, two, three, next_a, next_b, more));
    until("the end of all", || server.active() == 0).await;
    let answered = async || served.house.post(CHAT, &[("x-engineroom-session", "a")], user("Hello?")).await.0;
    let deadline = Instant::now() + Duration::from_secs(60);
    while answered().await != 200 {
        assert!(Instant::now() < deadline, "no place is free");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_come_holds_no_place_that_others_need() {
    let served = served(|config| config.api.max_requests = 1).await;
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n ");
    let slow = [served.sent(&head).await, served.sent(&head).await, served.sent(&head).await];
    until("that they are read", || served.house.api.limits.bytes_read() == 3).await;
    let answer =
        served.exchange(&turn("s", &user("Hello?")).replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(slow);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_does_not_read_is_cut_off_its_memory_is_bounded_and_its_session_is_free() {
    let server = Server::start(|request, _| match last(request).contains("pour") {
        true => Deed::Pour(16 * 1024),
        false => Deed::Say("well"),
    })
    .await;
    let served = served(|config| {
        asks(config, &server);
        config.api.write_timeout_ms = 500;
        config.api.min_bytes_per_second = 1 << 40;
    })
    .await;
    let mut asked = user("pour");
    asked["stream"] = true.into();
    let unread = served.sent(&turn("s", &asked)).await;
    until("the cut", || server.left() == 1).await;
    assert!(server.poured() < 64 * 1024 * 1024, "{} bytes were taken for nobody", server.poured());
    let (status, _) = served.house.post(CHAT, &[("x-engineroom-session", "s")], user("Hello?")).await;
    assert_eq!(status, 200, "the session is free");
    drop(unread);
}
