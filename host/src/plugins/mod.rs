//! From a file to a usable engine.
