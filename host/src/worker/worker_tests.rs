//! Workers that serve, fail to open, die, hang, and are ended.

use super::death::Death;
use super::lane::LANES_MAX;
use super::*;
use crate::config::LimitsConfig;
use crate::plugins::fixture::{Bench, Fixture};
use crate::plugins::{Cause, Door, LoadRequest, Stage, StageFailure, Wanted};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);

/// What the children serve: a request is a word and what belongs to it.
struct Words;

static TELLER: OnceLock<Teller> = OnceLock::new();
static CANCELLED: AtomicU64 = AtomicU64::new(u64::MAX);

impl Serve for Words {
    fn open(&self, opening: &Opening<'_>) -> Result<(), StageFailure> {
        (opening.progress)(Stage::Factory, "factory");
        opening.teller.say("opening");
        assert!(opening.state_root.is_dir());
        let _ = TELLER.set(opening.teller.clone());
        match opening.setup {
            "fail" => Err(StageFailure::new(Cause::FactoryError, "no luck").because("the reason")),
            "abort" => std::process::abort(),
            "hang" => loop {
                std::thread::park();
            },
            "deaf" => {
                // SAFETY: `SIG_IGN` is a handler that does nothing.
                #[expect(unsafe_code, reason = "ignores a signal")]
                unsafe {
                    libc::signal(libc::SIGTERM, libc::SIG_IGN);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn serve(&self, lane: &'static ChildLane, frame: &[u8]) {
        let text = String::from_utf8_lossy(frame).into_owned();
        let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
        match word {
            "echo" => lane.send(rest.as_bytes()).unwrap(),
            "ask" => {
                lane.send(b"question").unwrap();
                let mut answer = Vec::new();
                lane.receive(&mut answer).unwrap();
                lane.send(&answer).unwrap();
            }
            "thread" => {
                let name = std::thread::current().name().unwrap_or_default().to_owned();
                lane.send(format!("{} {name}", lane.number()).as_bytes()).unwrap();
            }
            "abort" => {
                eprintln!("last words");
                std::process::abort();
            }
            "chatter" => {
                let teller = TELLER.get().unwrap().clone();
                std::thread::spawn(move || {
                    let text = "x".repeat(100_000);
                    loop {
                        teller.say(&text);
                        eprintln!("{text}");
                    }
                });
                std::thread::sleep(Duration::from_millis(300));
                lane.send(b"said").unwrap();
            }
            "close" => {
                for number in 3..256 {
                    // SAFETY: closes what is not its own, on purpose; the process is ended for it.
                    #[expect(unsafe_code, reason = "closes descriptors by their numbers")]
                    unsafe {
                        libc::close(number);
                    }
                }
                loop {
                    std::thread::park();
                }
            }
            "exit" => leave_with(rest.parse().unwrap()),
            "hang" => loop {
                std::thread::park();
            },
            "spin" => loop {
                std::hint::spin_loop();
            },
            "panic" => panic!("on purpose"),
            "cancelled" => {
                while CANCELLED.load(Ordering::Acquire) == u64::MAX {
                    std::thread::sleep(Duration::from_millis(1));
                }
                lane.send(CANCELLED.load(Ordering::Acquire).to_string().as_bytes()).unwrap();
            }
            "garbage" => lane.send_raw(&u32::MAX.to_le_bytes()),
            "environment" => {
                let all: Vec<_> = std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
                lane.send(all.join("\n").as_bytes()).unwrap();
            }
            "stdin" => {
                let read = std::io::read_to_string(std::io::stdin()).unwrap();
                lane.send(read.as_bytes()).unwrap();
            }
            "fork" => {
                let started = std::process::Command::new("sleep").arg("600").spawn();
                lane.send(started.map_or(0, |child| child.id()).to_string().as_bytes()).unwrap();
            }
            _ => lane.send(b"what?").unwrap(),
        }
    }

    fn cancel(&self, call: u64) {
        CANCELLED.store(call, Ordering::Release);
    }
}

fn leave_with(code: i32) -> ! {
    #[expect(clippy::exit, reason = "a worker that ends itself")]
    std::process::exit(code)
}

/// What the open descriptors of a process lead to.
fn descriptors(pid: u32) -> Vec<String> {
    let listed = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = listed.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.map(|link| link.display().to_string()).collect()
}

/// Not a test of its own: a gateway that is killed. It starts a worker and tells its id.
#[test]
fn gateway_child() {
    if std::env::var_os("ENGINEROOM_TEST_GATEWAY").is_some() {
        let worker = Scene::good().start();
        println!("worker {}", worker.pid());
        loop {
            std::thread::park();
        }
    }
}

/// Not a test of its own: the child of the other tests, which start this program again.
#[test]
fn worker_child() {
    if std::env::var_os("ENGINEROOM_TEST_WORKER").is_some() {
        assert_eq!(run_worker(&[], &Words), 0);
    }
}

struct Scene {
    bench: Bench,
    setup: &'static str,
    limits: LimitsConfig,
    deadline: Duration,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Scene {
    fn new(fixture: &Fixture) -> Scene {
        let bench = Bench::new().with("w", fixture);
        use_worker_command(ProbeCommand {
            program: std::env::current_exe().unwrap(),
            args: ["worker::worker_tests::worker_child", "--exact", "--nocapture", "--test-threads=1"]
                .map(Into::into)
                .into(),
            env: vec![("ENGINEROOM_TEST_WORKER".into(), "1".into())],
        });
        Scene { bench, setup: "", limits: LimitsConfig::default(), deadline: LONG, heard: Arc::default() }
    }

    fn good() -> Scene {
        Scene::new(&Fixture::new("w"))
    }

    fn setup(setup: &'static str) -> Scene {
        Scene { setup, ..Scene::good() }
    }

    fn spec(&self) -> WorkerSpec {
        let heard = Arc::clone(&self.heard);
        WorkerSpec {
            load: LoadRequest {
                staged: self.bench.at("libw.so"),
                plugin_id: "w".into(),
                door: Door::C,
                engines: vec!["w".into()],
                memory: Vec::new(),
                wanted: vec![Wanted::engine("w")],
                config_json: "{}".into(),
                deadline_ms: 60_000,
                limits: self.limits.clone(),
            },
            subject: Wanted::engine("w"),
            state_root: self.state_root(),
            setup: self.setup.into(),
            deadline: self.deadline,
            steps: Steps { cancel: Duration::from_millis(20), term: Duration::from_millis(100) },
            hear: Arc::new(move |text| heard.lock().unwrap().push(text.to_owned())),
        }
    }

    fn state_root(&self) -> PathBuf {
        self.bench.config.gateway.state_dir.join("engines/w")
    }

    fn start(&self) -> Arc<Worker> {
        start(&self.spec()).unwrap()
    }

    fn failure(&self) -> StageFailure {
        start(&self.spec()).unwrap_err()
    }

    fn scratches(&self) -> usize {
        let names = std::fs::read_dir(self.state_root()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with(".worker-")).count()
    }
}

fn soon() -> Instant {
    Instant::now() + LONG
}

/// Waits for the next frame.
fn next(lane: &mut LaneGuard) -> Result<Vec<u8>, LaneError> {
    let (mut frame, until) = (Vec::new(), soon());
    while !lane.receive(&mut frame, Duration::from_millis(20))? {
        assert!(Instant::now() < until, "no reply");
    }
    Ok(frame)
}

fn call(worker: &Worker, request: &str) -> Result<String, LaneError> {
    let mut lane = worker.lane(soon())?;
    lane.send(request.as_bytes(), soon())?;
    let reply = next(&mut lane)?;
    lane.finish();
    Ok(String::from_utf8(reply).unwrap())
}

fn death(worker: &Worker) -> Arc<Death> {
    worker.death(LONG).expect("it still lives")
}

fn until(mut condition: impl FnMut() -> bool) {
    let end = soon();
    while !condition() {
        assert!(Instant::now() < end, "it never came to pass");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn lives(pid: u32) -> bool {
    // A killed process that nobody waited for is still in the table.
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    state.is_ok_and(|stat| !stat.rsplit(") ").next().unwrap_or_default().starts_with('Z'))
}

#[test]
fn a_worker_answers_on_its_lanes_and_one_that_is_free_is_used_again() {
    let scene = Scene::good();
    let worker = scene.start();
    assert_eq!(call(&worker, "echo hello").unwrap(), "hello");
    assert_eq!(call(&worker, "thread").unwrap(), "0 lane-0");
    let long = "x".repeat(3_000_000);
    assert_eq!(call(&worker, &format!("echo {long}")).unwrap().len(), long.len());

    let mut first = worker.lane(soon()).unwrap();
    first.send(b"ask", soon()).unwrap();
    assert_eq!(next(&mut first).unwrap(), b"question");
    assert_eq!(call(&worker, "thread").unwrap(), "1 lane-1", "the first one is in use");
    first.send(b"answer", soon()).unwrap();
    assert_eq!(next(&mut first).unwrap(), b"answer");
    first.finish();
    until(|| *scene.heard.lock().unwrap() == ["opening"]);
}

#[test]
fn there_are_only_so_many_lanes_and_who_waits_gets_the_next_free_one() {
    let worker = Scene::good().start();
    let mut lanes: Vec<_> = (0..LANES_MAX).map(|_| worker.lane(soon()).unwrap()).collect();
    let none = worker.lane(Instant::now() + Duration::from_millis(20)).unwrap_err();
    assert!(matches!(none, LaneError::Busy));
    let waiting = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| worker.lane(soon()).unwrap().number());
        let number = lanes.pop().map(|lane| lane.number());
        assert_eq!(waiting.join().unwrap(), number.unwrap());
        number
    });
    assert_eq!(waiting, Some(LANES_MAX - 1));
    drop(lanes);
    assert!(worker.death(Duration::from_millis(50)).is_none(), "lanes that were not used are no reason to end it");
}

#[test]
fn a_worker_with_low_limits_has_fewer_lanes_all_of_which_serve() {
    let limits = LimitsConfig { open_files: 32, memory_mb: 64, ..LimitsConfig::default() };
    let worker = Scene { limits, ..Scene::good() }.start();
    let mut lanes: Vec<_> = (0..4).map(|_| worker.lane(soon()).unwrap()).collect();
    assert!(matches!(worker.lane(Instant::now()), Err(LaneError::Busy)));
    for lane in &mut lanes {
        lane.send(b"echo x", soon()).unwrap();
        assert_eq!(next(lane).unwrap(), b"x");
    }
    lanes.into_iter().for_each(LaneGuard::finish);
}

#[test]
fn a_worker_that_never_stops_talking_is_slowed_down_and_serves_all_the_same() {
    let scene = Scene::good();
    let worker = scene.start();
    assert_eq!(call(&worker, "chatter").unwrap(), "said");
    let other = Scene::good().start();
    assert_eq!(call(&other, "echo x").unwrap(), "x");
    assert!(worker.death(Duration::from_millis(50)).is_none());
    worker.end("enough");
    assert!(death(&worker).by_us);
}

#[test]
fn a_death_in_a_call_is_told_with_signal_and_last_words() {
    let scene = Scene::good();
    let worker = scene.start();
    let (tell, told) = mpsc::channel();
    worker.on_death(move |death| tell.send(death.ending.to_string()).unwrap());
    assert!(matches!(call(&worker, "abort"), Err(LaneError::Gone)));
    let death = death(&worker);
    assert!(!death.by_us, "{death:?}");
    assert!(death.reason(Some("ingest")).starts_with("its worker was killed by SIGABRT (abort) in ingest; it wrote: "));
    assert!(death.wrote.iter().any(|line| line == "last words"), "{:?}", death.wrote);
    assert_eq!(told.recv_timeout(LONG).unwrap(), death.ending.to_string());
    let (tell, late) = mpsc::channel();
    worker.on_death(move |death| tell.send(death.pid).unwrap());
    assert_eq!(late.try_recv().unwrap(), worker.pid(), "whoever asks late is told at once");
    assert!(matches!(worker.lane(soon()), Err(LaneError::Gone)));
    until(|| scene.scratches() == 0);
}

#[test]
fn an_exit_in_a_call_is_told_with_its_code() {
    let worker = Scene::good().start();
    assert!(matches!(call(&worker, "exit 7"), Err(LaneError::Gone)));
    assert_eq!(death(&worker).reason(None), "its worker ended with exit code 7");
}

#[test]
fn a_death_between_calls_is_seen() {
    let worker = Scene::good().start();
    let (tell, told) = mpsc::channel();
    worker.on_death(move |death| tell.send(death.by_us).unwrap());
    kill_process(Pid::from_raw(worker.pid().cast_signed()).unwrap(), Signal::KILL).unwrap();
    assert!(!told.recv_timeout(LONG).unwrap());
    assert!(death(&worker).reason(None).contains("SIGKILL"));
    assert!(test_kill_process(Pid::from_raw(worker.pid().cast_signed()).unwrap()).is_err(), "it was waited for");
}

#[test]
fn a_call_that_hangs_comes_back_when_the_worker_is_ended() {
    let worker = Scene::good().start();
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| call(&worker, "hang"));
        worker.end("it hangs");
        worker.end("another reason");
        assert!(matches!(calling.join().unwrap(), Err(LaneError::Gone)));
    });
    let death = death(&worker);
    assert!(death.by_us);
    assert_eq!(death.reason(Some("compact")), "its worker was stopped in compact: it hangs");
}

#[test]
fn a_worker_that_ignores_sigterm_is_killed() {
    let worker = Scene::setup("deaf").start();
    worker.end("enough");
    let death = death(&worker);
    assert_eq!((death.ending.to_string().contains("SIGKILL"), death.by_us), (true, true), "{death:?}");
}

#[test]
fn a_stop_ends_it_in_good_order_and_a_deaf_one_by_the_ladder() {
    let worker = Scene::good().start();
    worker.stop(soon());
    let end = worker.death(Duration::ZERO).expect("stop waits for the end");
    assert_eq!((end.ending.to_string().as_str(), end.by_us), ("ended with exit code 0", true));

    let worker = Scene::setup("deaf").start();
    let pid = Pid::from_raw(worker.pid().cast_signed()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    worker.stop(Instant::now() + Duration::from_millis(50));
    assert!(worker.death(Duration::ZERO).is_some());
}

#[test]
fn a_call_that_is_given_up_ends_the_worker() {
    let worker = Scene::good().start();
    let mut lane = worker.lane(soon()).unwrap();
    lane.send(b"hang", soon()).unwrap();
    assert!(!lane.receive(&mut Vec::new(), Duration::from_millis(5)).unwrap());
    drop(lane);
    assert_eq!(death(&worker).reason(None), "its worker was stopped: a call did not come back");
}

#[test]
fn what_is_no_frame_breaks_the_lane_and_ends_the_worker() {
    let worker = Scene::good().start();
    let error = call(&worker, "garbage").unwrap_err();
    assert!(matches!(error, LaneError::Frame(FrameError::Oversize { .. })), "{error:?}");
    assert!(death(&worker).reason(None).contains("a frame of 4294967295 bytes is longer"));
}

#[test]
fn a_worker_that_closes_what_is_not_its_own_ends() {
    let scene = Scene::good();
    let worker = scene.start();
    assert!(matches!(call(&worker, "close"), Err(LaneError::Gone)));
    let death = death(&worker);
    assert!(!lives(death.pid), "{death:?}");
    until(|| scene.scratches() == 0);
}

#[test]
fn a_dead_worker_holds_no_descriptor() {
    let worker = Scene::good().start();
    assert_eq!(call(&worker, "echo x").unwrap(), "x");
    assert!(worker.holds_control());
    worker.end("enough");
    death(&worker);
    assert!(!worker.holds_control());
}

#[test]
fn a_panic_of_the_serving_side_fails_its_call() {
    let worker = Scene::good().start();
    let mut lane = worker.lane(soon()).unwrap();
    lane.send(b"panic", soon()).unwrap();
    assert!(matches!(next(&mut lane), Err(LaneError::Gone)));
}

#[test]
fn a_cancelled_call_is_told_so_while_it_runs() {
    let worker = Scene::good().start();
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| call(&worker, "cancelled").unwrap());
        worker.cancel(12);
        assert_eq!(calling.join().unwrap(), "12");
    });
}

#[test]
fn processor_time_of_a_call_is_limited_and_sleeping_costs_none() {
    let limits = LimitsConfig { cpu_seconds: Some(1), ..LimitsConfig::default() };
    let worker = Scene { limits, ..Scene::good() }.start();
    let error = call(&worker, "spin").unwrap_err();
    assert!(matches!(error, LaneError::Cpu { .. }), "{error:?}");
    let reason = death(&worker).reason(None);
    assert!(reason.contains("ms of processor time; 1000 ms are allowed"), "{reason}");
}

#[test]
fn a_worker_is_cut_off_from_what_is_the_gateways() {
    // Stays open in whatever is executed.
    let scene = Scene::good();
    let secret = std::fs::File::create(scene.bench.base.path().join("store.db")).unwrap();
    let leaky = rustix::io::fcntl_dupfd_cloexec(&secret, 100).unwrap();
    rustix::io::fcntl_setfd(&leaky, rustix::io::FdFlags::empty()).unwrap();
    let worker = scene.start();
    assert_eq!(call(&worker, "stdin").unwrap(), "");
    // Standard ones, control (twice), one lane; the library itself is mapped and closed.
    let all = descriptors(worker.pid());
    let sockets = all.iter().filter(|link| link.starts_with("socket:")).count();
    assert_eq!((sockets, all.len()), (3, 6), "{all:?}");
    let mut names: Vec<String> = Vec::new();
    for line in call(&worker, "environment").unwrap().lines() {
        names.extend(line.split_once('=').map(|(name, _)| name.to_owned()));
    }
    names.retain(|name| !["LD_LIBRARY_PATH", "ENGINEROOM_TEST_WORKER"].contains(&name.as_str()));
    names.sort();
    assert_eq!(names, ["HOME", "TMPDIR"]);
    drop(leaky);
}

#[test]
fn what_a_library_started_dies_with_its_worker() {
    // In the sandbox it cannot; so the worker is a shell, which knows none.
    let scene = Scene::good();
    let file = scene.bench.at("pid");
    let script = format!("sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait", file.display());
    let shell = |_: &Path, control: Stdio| {
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stdin(control).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        Ok(command)
    };
    let shared = start::launch(&scene.spec(), shell).unwrap();
    until(|| file.exists());
    let started = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    assert!(lives(started));
    shared.end("enough");
    assert!(shared.death(LONG).unwrap().by_us);
    until(|| !lives(started));
}

#[test]
fn a_library_in_a_worker_is_confined() {
    let scene = Scene::good();
    let worker = scene.start();
    let support = sandbox_support();
    let report = worker.sandbox().unwrap();
    assert_eq!((report.landlock, report.seccomp), (support.landlock, support.seccomp));
    if support.seccomp {
        assert_eq!(call(&worker, "fork").unwrap(), "0", "it started a process");
    }
}

#[test]
fn a_worker_dies_with_its_gateway() {
    for stopped in [false, true] {
        let mut gateway = Command::new(std::env::current_exe().unwrap())
            .args(["worker::worker_tests::gateway_child", "--exact", "--nocapture", "--test-threads=1"])
            .env("ENGINEROOM_TEST_GATEWAY", "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(gateway.stdout.take().unwrap()).lines();
        let worker = lines.find_map(|line| line.unwrap().split_once("worker ").map(|(_, pid)| pid.to_owned()));
        let worker: u32 = worker.unwrap().trim().parse().unwrap();
        assert!(lives(worker));
        if stopped {
            // It cannot see for itself that its gateway is gone: the system has to end it.
            kill_process(Pid::from_raw(worker.cast_signed()).unwrap(), Signal::STOP).unwrap();
        }
        gateway.kill().unwrap();
        gateway.wait().unwrap();
        until(|| !lives(worker));
    }
}

#[test]
fn two_hundred_workers_leave_nothing_behind() {
    let scene = Scene::good();
    let spec = scene.spec();
    let one = |number: u32| {
        let worker = start(&spec).unwrap();
        assert_eq!(call(&worker, "echo x").unwrap(), "x");
        match number % 3 {
            0 => worker.stop(soon()),
            1 => assert!(matches!(call(&worker, "abort"), Err(LaneError::Gone))),
            _ => worker.end("enough"),
        }
        death(&worker);
        worker.pid()
    };
    let first = one(0);
    until(|| scene.scratches() == 0);
    let before = (descriptors(std::process::id()).len(), threads());
    let mut all: Vec<u32> = (0..200).map(one).collect();
    all.push(first);
    until(|| scene.scratches() == 0);
    // Other tests of this program open and start things as well.
    until(|| descriptors(std::process::id()).len() <= before.0 + 60 && threads() <= before.1 + 60);
    assert!(all.into_iter().all(|pid| !lives(pid)));
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn a_failure_in_good_order_keeps_its_own_stage() {
    let scene = Scene::setup("fail");
    let failure = scene.failure();
    assert_eq!((failure.code, failure.stage), (Cause::FactoryError.code(), Stage::Factory));
    assert_eq!(failure.causes, ["the reason"]);
    until(|| scene.scratches() == 0);
}

#[test]
fn a_library_that_does_not_register_what_was_wanted_is_refused() {
    let failure = Scene::new(&Fixture::new("w").enroll("return 0;")).failure();
    assert_eq!(failure.code, Cause::NotRegistered.code());
}

#[test]
fn a_death_while_it_opens_names_the_place() {
    let constructor = Fixture::new("w").start("fprintf(stderr, \"bad luck\\n\"); abort();");
    let failure = Scene::new(&constructor).failure();
    assert_eq!((failure.code, failure.stage), (Cause::WorkerDied.code(), Stage::Worker));
    assert!(failure.message.contains("SIGABRT") && failure.message.contains("constructors"), "{}", failure.message);
    assert!(failure.causes.iter().any(|cause| cause == "the worker wrote: bad luck"), "{:?}", failure.causes);

    let failure = Scene::setup("abort").failure();
    assert!(failure.message.ends_with("SIGABRT (abort) in factory"), "{}", failure.message);

    let failure = Scene::new(&Fixture::new("w").enroll("_exit(7);")).failure();
    assert_eq!(failure.code, Cause::WorkerDied.code());
    assert!(failure.message.ends_with("exit code 7 in register"), "{}", failure.message);
}

#[test]
fn a_hang_while_it_opens_ends_at_the_deadline() {
    let scene = Scene { deadline: Duration::from_millis(1500), ..Scene::setup("hang") };
    let failure = scene.failure();
    assert_eq!(failure.code, Cause::WorkerDeadline.code());
    assert!(failure.message.ends_with("it was in factory"), "{}", failure.message);
    until(|| scene.scratches() == 0);
}

#[test]
fn a_program_that_is_no_worker_is_told_so() {
    assert_eq!(run_worker(&["x".into()], &Words), 2);
}
