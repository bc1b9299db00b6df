//! A library that is replaced while the gateway runs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::{Setup, built, library_name};
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_new_library_under_load_changes_nothing_until_the_next_start_and_doctor_says_so() {
    let setup = Setup::new().library("window").select("window");
    let gateway = setup.start();
    let before = gateway.client().engines();
    let sha = |engines: &serde_json::Value| {
        engines["engines"].as_array().unwrap().iter().find(|row| row["id"] == "window").unwrap()["library"]["sha256"]
            .clone()
    };
    assert_eq!(setup.cli(&["doctor"]).code, Some(0), "{:?}", setup.cli(&["doctor"]));

    // A newer build: the same library with a tail that no loader looks at, so that its hash differs and it still works.
    let mut newer = std::fs::read(built().library("window")).unwrap();
    newer.extend_from_slice(b"a newer build");
    let path = setup.plugins().join(library_name("window"));
    let replaced = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for worker in 0..5 {
            let (client, replaced) = (gateway.client(), &replaced);
            scope.spawn(move || {
                for n in 0..10 {
                    while n >= 5 && !replaced.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                    let answer = client.say(&format!("s{worker}"), &format!("Request {n}."));
                    assert_eq!((answer.status, answer.engine()), (200, Some("window")), "{answer:?}");
                    assert_eq!(answer.degraded(), None);
                }
            });
        }
        // As `cp` does it: in place, under the same inode.
        std::fs::write(&path, &newer).unwrap();
        replaced.store(true, Ordering::Release);
    });
    assert!(sha(&before).is_string(), "{before:#}");
    assert_eq!(sha(&gateway.client().engines()), sha(&before), "the running one is still the staged one");
    let said = setup.cli(&["doctor"]);
    assert!(said.stdout.contains("restart") && said.stdout.contains("window"), "{said:?}");
    assert!(gateway.stop().success());

    let gateway = setup.start();
    assert_ne!(sha(&gateway.client().engines()), sha(&before), "the change is taken at the next start");
    assert_eq!(gateway.client().say("s0", "Hello again.").engine(), Some("window"));
}
