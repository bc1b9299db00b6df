//! The queue's promises under many interleavings of turns, wishes and a stop: the real queue and the real lanes.

use super::queue::{Kind, Maintenance, Params, Refused, Surroundings, Wanted};
use super::run::Ended;
use super::status::LastRun;
use crate::config::Config;
use crate::slot::{EngineRef, Lease, engine_named};
use crate::sync::{explore, point, thread};
use crate::turn::lanes::{LaneGuard, Lanes};
use std::collections::HashSet;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What a scene sees.
struct Watched {
    queue: Maintenance,
    lanes: Arc<Lanes>,
    /// Sessions with a run, or with a turn.
    busy: Mutex<HashSet<String>>,
    /// The numbers of the wishes that were done.
    done: Mutex<Vec<u64>>,
    /// The queue was told to stop, and came back from that.
    stopped: AtomicBool,
    wrong: Mutex<Vec<String>>,
}

impl Watched {
    fn enter(&self, key: &str, what: &str) {
        if !self.busy.lock().unwrap().insert(key.to_owned()) {
            self.wrong.lock().unwrap().push(format!("{what} in {key}, where something runs already"));
        }
    }

    fn leave(&self, key: &str) {
        self.busy.lock().unwrap().remove(key);
    }
}

impl Surroundings for Watched {
    fn queue(&self) -> &Maintenance {
        &self.queue
    }

    fn lanes(&self) -> &Arc<Lanes> {
        &self.lanes
    }

    fn spawn(&self, job: impl Future<Output = ()> + Send + 'static) {
        drop(shuttle::future::spawn(job));
    }

    async fn run(self: &Arc<Self>, key: &str, mut wanted: Wanted, lane: LaneGuard, stop: &CancellationToken) -> Ended {
        if self.stopped.load(SeqCst) {
            self.wrong.lock().unwrap().push(format!("a run in {key} after the stop"));
        }
        self.enter(key, "a run");
        let mut outcome = "succeeded";
        while let Some((kind, params)) = wanted.take() {
            shuttle::future::yield_now().await;
            let in_the_way = futures_util::FutureExt::now_or_never(lane.wanted()).is_some();
            if stop.is_cancelled() {
                wanted = Wanted::default();
                outcome = "cancelled";
                break;
            }
            if in_the_way {
                wanted.set(kind, params);
                outcome = "gave-way";
                break;
            }
            self.done.lock().unwrap().extend(params.current_tokens);
            shuttle::future::yield_now().await;
        }
        self.leave(key);
        let last = LastRun {
            outcome,
            reason: None,
            ended_ms: 0,
            duration_ms: 0,
            changed: false,
            bytes_freed: 0,
            rewritten_entries: 0,
        };
        Ended { last, undone: wanted }
    }

    fn count(&self, _: &str, _: &str, _: Option<u64>) {}
}

fn params(engine: &EngineRef, number: u64) -> Params {
    Params {
        lease: Lease::only(engine.clone()),
        token_budget: None,
        current_tokens: Some(number),
        heartbeat: false,
        fixed_tokens: (0, 0),
        params: serde_json::Map::new(),
    }
}

/// The wishes of one thread: session, engine, what, and its number.
type Wishes = &'static [(&'static str, &'static str, Kind, u64)];

const WISHES: [Wishes; 2] = [
    &[("s", "e", Kind::Maintain, 1), ("s", "e", Kind::Compact, 2), ("s", "e", Kind::Maintain, 3)],
    &[("s", "f", Kind::Maintain, 4), ("t", "e", Kind::Maintain, 5), ("s", "f", Kind::Compact, 6)],
];

fn scene(stops: bool) {
    let house = Arc::new(Watched {
        queue: Maintenance::new(&Config::defaults("plugins.toml".into())),
        lanes: Lanes::new(8, 64, Duration::from_secs(3600)),
        busy: Mutex::default(),
        done: Mutex::default(),
        stopped: AtomicBool::new(false),
        wrong: Mutex::default(),
    });
    let mut threads: Vec<_> = WISHES
        .into_iter()
        .map(|wishes| {
            let house = Arc::clone(&house);
            thread(move || {
                let wish = |&(key, engine, kind, number): &(&str, &str, Kind, u64)| {
                    let engine = engine_named(engine);
                    match house.queue.enqueue(&house, key.into(), kind, params(&engine, number)) {
                        Ok(()) => None,
                        Err(refused) => {
                            assert_eq!(refused, Refused::Draining);
                            Some(number)
                        }
                    }
                };
                wishes.iter().filter_map(wish).collect::<Vec<u64>>()
            })
        })
        .collect();
    let turn = Arc::clone(&house);
    threads.push(thread(move || {
        for key in ["s", "t"] {
            let lane = shuttle::future::block_on(turn.lanes.enter(key)).unwrap();
            turn.enter(key, "a turn");
            point();
            turn.leave(key);
            drop(lane);
        }
        Vec::new()
    }));
    if stops {
        let stop = Arc::clone(&house);
        threads.push(thread(move || {
            stop.queue.cancel_all();
            stop.stopped.store(true, SeqCst);
            Vec::new()
        }));
    }
    let refused: Vec<u64> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    house.queue.tasks.close();
    shuttle::future::block_on(house.queue.tasks.wait());

    assert!(house.wrong.lock().unwrap().is_empty(), "{:?}", house.wrong.lock().unwrap());
    assert_eq!(house.queue.numbers(), (0, 0), "nothing is left over");
    let done = house.done.lock().unwrap().clone();
    let once: HashSet<u64> = done.iter().copied().collect();
    assert_eq!(once.len(), done.len(), "done once: {done:?}");
    for (key, engine, kind, number) in WISHES.into_iter().flatten() {
        // The first wish of three may be overtaken by the same wish with later parameters.
        let merged = *number == 1 && (once.contains(&3) || stops);
        let told = || {
            let of = |session: &str, of: &str| session == *key && of == *engine;
            house
                .queue
                .status(of)
                .iter()
                .any(|status| status.last.as_ref().is_some_and(|last| last.outcome == "cancelled"))
        };
        let accounted = once.contains(number) || merged || refused.contains(number) || stops && told();
        assert!(accounted, "{number} ({kind:?} of {engine} in {key}) is lost; done: {done:?}");
    }
}

/// Lanes keep their patience by tokio's clock, which needs a runtime around; nothing runs on it.
fn explored(times: usize, stops: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _inside = runtime.enter();
    explore(times, move || scene(stops));
}

#[test]
fn no_session_has_two_runs_at_once_and_no_wish_is_lost() {
    explored(300, false);
}

#[test]
fn nothing_runs_after_a_stop_and_what_waited_is_told() {
    explored(300, true);
}
