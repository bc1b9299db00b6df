//! One guarded call: what is lent to the engine, what it may push and ask, and what of it is taken.

pub(crate) mod arena;
pub(crate) mod ask;
pub(crate) mod border;
pub(crate) mod frame;
pub(crate) mod guarded;
pub(crate) mod handle;
pub(crate) mod host_table;
pub(crate) mod input;
pub(crate) mod invoke;
pub(crate) mod lend;
pub(crate) mod receive;
pub(crate) mod service_tables;
pub(crate) mod sink;
