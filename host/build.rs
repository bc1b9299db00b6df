//! Has the program export its own `_exit`, so that a library which ends the process by it is seen by the crash ledger.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=_exit");
    }
}
