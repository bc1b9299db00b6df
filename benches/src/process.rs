//! A real gateway with `window` loaded, in its own process.

use engineroom_tests::{library_name, outer_cargo};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A gateway process. Dropped, it is killed.
#[derive(Debug)]
pub struct Gateway {
    child: Child,
    /// `HOST:PORT`.
    pub address: String,
    /// From the start of the process to its first good answer of `/readyz`.
    pub ready_after: Duration,
}

/// Builds the gateway and `window` in the bench profile; gives the folder of the built files.
pub fn build() -> PathBuf {
    build_with("engine-window")
}

/// Builds the gateway and an engine in the bench profile; gives the folder of the built files.
pub fn build_with(engine: &str) -> PathBuf {
    let own = std::env::current_exe().expect("the bench's own path");
    let folder = own.parent().and_then(Path::parent).expect("a folder above deps").to_path_buf();
    let status = outer_cargo()
        .args(["build", "--release", "--package", "engineroom", "--package", engine, "--target-dir"])
        .arg(folder.parent().expect("a target folder"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo starts");
    assert!(status.success(), "the gateway does not build");
    folder
}

impl Gateway {
    /// Starts it in `folder`, with the model at `model`.
    pub fn start(built: &Path, folder: &Path, model: &str) -> Gateway {
        let plugins = folder.join("plugins");
        std::fs::create_dir_all(&plugins).expect("a plugins folder");
        let name = library_name("window");
        let library = plugins.join(&name);
        std::fs::copy(built.join(&name), &library).expect("the engine");
        std::fs::set_permissions(&library, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("its mode");
        // A small window makes every session's prompt the same size; compaction is off, so that all of a long session stays
        // in the projection.
        Gateway::start_with(
            built,
            folder,
            &format!(
                "[gateway]\nlisten = \"127.0.0.1:0\"\nstate_dir = \"state\"\nhot_sessions_bytes = 2147483648\n\
                 queue_per_session = 4096\nqueue_total = 4096\n\n\
                 [api]\nmax_connections = 4096\nmax_requests = 4096\n\n\
                 [model]\nprovider = \"openai\"\nbase_url = \"http://{model}/v1\"\ncontext_window = 4000\n\
                 max_output_tokens = 500\n\n\
                 [plugins]\ndir = \"plugins\"\nisolation = \"in-process\"\n\n[plugins.slots]\ncontextEngine = \"window\"\n\n\
                 [compaction]\nenabled = false\n"
            ),
        )
    }

    /// Starts it in `folder` with this configuration.
    pub fn start_with(built: &Path, folder: &Path, configuration: &str) -> Gateway {
        let config = folder.join("plugins.toml");
        std::fs::write(&config, configuration).expect("plugins.toml");
        let start = Instant::now();
        let mut child = Command::new(built.join("engineroom"))
            .arg("gateway")
            .arg("--config")
            .arg(&config)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the gateway starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let address = loop {
            let line = lines.next().expect("the gateway names its address").expect("a line");
            if let Some((_, rest)) = line.split_once("http://") {
                let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':')).unwrap_or(rest.len());
                break rest[..end].to_owned();
            }
        };
        std::thread::spawn(move || lines.for_each(drop));
        while !get(&address, "/readyz").starts_with("HTTP/1.1 200") {
            std::thread::sleep(Duration::from_micros(500));
        }
        Gateway { child, address, ready_after: start.elapsed() }
    }

    /// Resident memory in bytes.
    pub fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("its status");
        let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("VmRSS");
        let kib: u64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
        kib * 1024
    }

    /// What a GET of `path` answers, as JSON.
    pub fn json(&self, path: &str) -> serde_json::Value {
        let answer = get(&self.address, path);
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        // A long body may come in chunks.
        let start = body.find('{').expect("an object");
        let end = body.rfind('}').expect("an object");
        let text: String = match serde_json::from_str::<serde_json::Value>(&body[start..=end]) {
            Ok(value) => return value,
            Err(_) => unchunked(body),
        };
        serde_json::from_str(&text).expect("JSON")
    }

    /// A counter of `/metrics`, summed over its labels.
    pub fn counter(&self, name: &str) -> f64 {
        get(&self.address, "/metrics")
            .lines()
            .filter(|line| line.starts_with(name) && line[name.len()..].starts_with(['{', ' ']))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Both fail only when it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A GET without a client; the whole answer.
fn get(address: &str, path: &str) -> String {
    use std::io::{Read, Write};
    let mut answer = String::new();
    if let Ok(mut stream) = std::net::TcpStream::connect(address) {
        let _ = write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        let _ = stream.read_to_string(&mut answer);
    }
    answer
}

/// The data of a chunked body.
fn unchunked(mut body: &str) -> String {
    let mut data = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let Ok(size) = usize::from_str_radix(size.trim(), 16) else { break };
        if size == 0 {
            break;
        }
        data.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    data
}
