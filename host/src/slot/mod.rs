//! Who serves the slot, and how it is called.
