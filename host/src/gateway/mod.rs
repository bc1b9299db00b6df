//! Wires the rooms from the configuration; starts, drains, stops.
