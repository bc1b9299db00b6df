#!/bin/sh
# Compiles a crate of the workspace with coverage for libFuzzer. Cargo calls it instead of rustc for the workspace's own crates
# (`RUSTC_WORKSPACE_WRAPPER`): dependencies stay as every other build left them, so that a run costs little building.
# The pass is a part of LLVM that the stable compiler offers; sanitizers proper would need a nightly one.
case " $* " in
*" --crate-type proc-macro "* | *" --crate-name build_script_"* | *" --print "* | *" -vV "*) exec "$@" ;;
esac
exec "$@" \
    -C passes=sancov-module \
    -C llvm-args=-sanitizer-coverage-level=4 \
    -C llvm-args=-sanitizer-coverage-inline-8bit-counters \
    -C llvm-args=-sanitizer-coverage-pc-table \
    -C llvm-args=-sanitizer-coverage-trace-compares
