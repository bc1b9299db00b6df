//! The program behind `cargo xtask eval`.

fn main() {}
