//! The engine's own compaction: [`show`](crate::show) folds, this answers for it.

pub(crate) use crate::show::compact;
