//! Primitives that are the standard library's outside of [`explore`], and inside of it are scheduled by the test: each step that
//! another thread could see is a place where the threads may be interleaved.
//!
//! Inside, all threads are coroutines on one thread of the system. Memory is sequentially consistent there: what a weaker
//! ordering of an atomic would allow beyond that is not explored.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError};
use std::time::Duration;

/// True inside of [`explore`].
fn inside() -> bool {
    shuttle::current::try_get_current_task().is_some()
}

/// A place where another thread may go on.
pub(crate) fn point() {
    if inside() {
        shuttle::thread::yield_now();
    }
}

/// Runs `scene` again and again, its threads interleaved at random, each time differently. A thread that nobody joins may be
/// left over.
pub(crate) fn explore(times: usize, scene: impl Fn() + Send + Sync + 'static) {
    let mut config = shuttle::Config::new();
    // Real code needs a real stack.
    config.stack_size = 1024 * 1024;
    let scheduler = shuttle::scheduler::RandomScheduler::new(times);
    shuttle::Runner::new(scheduler, config).run(scene);
}

/// A thread of a scene.
pub(crate) fn thread<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> shuttle::thread::JoinHandle<R> {
    shuttle::thread::spawn(work)
}

/// Starts a thread that nobody joins.
pub(crate) fn spawn<R: Send + 'static>(
    name: String,
    stack: usize,
    work: impl FnOnce() -> R + Send + 'static,
) -> std::io::Result<()> {
    if inside() {
        // A task whose handle is dropped need not end.
        drop(shuttle::future::spawn(async move { drop(work()) }));
        return Ok(());
    }
    std::thread::Builder::new().name(name).stack_size(stack).spawn(work).map(drop)
}

/// See [`std::sync::Mutex`].
pub(crate) enum Mutex<T> {
    Plain(std::sync::Mutex<T>),
    Explored(shuttle::sync::Mutex<T>),
}

/// See [`std::sync::MutexGuard`].
pub(crate) enum MutexGuard<'a, T> {
    Plain(std::sync::MutexGuard<'a, T>),
    Explored(shuttle::sync::MutexGuard<'a, T>),
}

fn either<G, H>(result: LockResult<G>, wrap: impl Fn(G) -> H) -> LockResult<H> {
    match result {
        Ok(guard) => Ok(wrap(guard)),
        Err(poisoned) => Err(PoisonError::new(wrap(poisoned.into_inner()))),
    }
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        match inside() {
            true => Mutex::Explored(shuttle::sync::Mutex::new(value)),
            false => Mutex::Plain(std::sync::Mutex::new(value)),
        }
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        match self {
            Mutex::Plain(mutex) => either(mutex.lock(), MutexGuard::Plain),
            Mutex::Explored(mutex) => either(mutex.lock(), MutexGuard::Explored),
        }
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutex")
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            MutexGuard::Plain(guard) => guard,
            MutexGuard::Explored(guard) => guard,
        }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match self {
            MutexGuard::Plain(guard) => guard,
            MutexGuard::Explored(guard) => guard,
        }
    }
}

/// See [`std::sync::Condvar`]. Inside of [`explore`] a wait is never over for want of time.
pub(crate) enum Condvar {
    Plain(std::sync::Condvar),
    Explored(shuttle::sync::Condvar),
}

impl Condvar {
    pub(crate) fn new() -> Condvar {
        match inside() {
            true => Condvar::Explored(shuttle::sync::Condvar::new()),
            false => Condvar::Plain(std::sync::Condvar::new()),
        }
    }

    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        match (self, guard) {
            (Condvar::Plain(bell), MutexGuard::Plain(guard)) => either(bell.wait(guard), MutexGuard::Plain),
            (Condvar::Explored(bell), MutexGuard::Explored(guard)) => either(bell.wait(guard), MutexGuard::Explored),
            _ => panic!("a condition of one world and a lock of the other"),
        }
    }

    /// The second of the answer: whether the time was over.
    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, bool)> {
        match (self, guard) {
            (Condvar::Plain(bell), MutexGuard::Plain(guard)) => {
                either(bell.wait_timeout(guard, time), |(guard, over)| (MutexGuard::Plain(guard), over.timed_out()))
            }
            (Condvar::Explored(bell), MutexGuard::Explored(guard)) => {
                either(bell.wait(guard), |guard| (MutexGuard::Explored(guard), false))
            }
            _ => panic!("a condition of one world and a lock of the other"),
        }
    }

    pub(crate) fn notify_one(&self) {
        match self {
            Condvar::Plain(bell) => bell.notify_one(),
            Condvar::Explored(bell) => bell.notify_one(),
        }
    }

    pub(crate) fn notify_all(&self) {
        match self {
            Condvar::Plain(bell) => bell.notify_all(),
            Condvar::Explored(bell) => bell.notify_all(),
        }
    }
}

/// See [`std::sync::OnceLock`].
#[derive(Debug)]
pub(crate) struct OnceLock<T>(std::sync::OnceLock<T>);

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}

impl<T> OnceLock<T> {
    pub(crate) const fn new() -> OnceLock<T> {
        OnceLock(std::sync::OnceLock::new())
    }

    pub(crate) fn get(&self) -> Option<&T> {
        point();
        self.0.get()
    }

    /// `make` takes no step that others could see.
    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        point();
        self.0.get_or_init(make)
    }
}

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        /// See the type of the same name in [`std::sync::atomic`].
        #[derive(Debug, Default)]
        pub(crate) struct $name(std::sync::atomic::$name);

        #[allow(dead_code, reason = "not every method of every type is in use")]
        impl $name {
            pub(crate) const fn new(value: $value) -> $name {
                $name(std::sync::atomic::$name::new(value))
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                point();
                self.0.load(order)
            }

            pub(crate) fn store(&self, value: $value, order: Ordering) {
                point();
                self.0.store(value, order);
            }

            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.swap(value, order)
            }

            pub(crate) fn compare_exchange(
                &self,
                old: $value,
                new: $value,
                well: Ordering,
                ill: Ordering,
            ) -> Result<$value, $value> {
                point();
                self.0.compare_exchange(old, new, well, ill)
            }

            pub(crate) fn fetch_update(
                &self,
                well: Ordering,
                ill: Ordering,
                next: impl Fn($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                loop {
                    let old = self.load(ill);
                    let new = next(old).ok_or(old)?;
                    if self.compare_exchange(old, new, well, ill).is_ok() {
                        return Ok(old);
                    }
                }
            }
        }
    };
}

macro_rules! number {
    ($name:ident, $value:ty) => {
        atomic!($name, $value);

        #[allow(dead_code, reason = "not every method of every type is in use")]
        impl $name {
            pub(crate) fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.fetch_add(value, order)
            }

            pub(crate) fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.fetch_sub(value, order)
            }

            pub(crate) fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.fetch_max(value, order)
            }

            pub(crate) fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.fetch_or(value, order)
            }
        }
    };
}

use std::sync::atomic::Ordering;

atomic!(AtomicBool, bool);
number!(AtomicU8, u8);
number!(AtomicU32, u32);
number!(AtomicU64, u64);
number!(AtomicUsize, usize);

/// See [`std::sync::mpsc`]. Inside of [`explore`] a wait is never over for want of time.
pub(crate) mod mpsc {
    use super::{Duration, inside};
    pub(crate) use std::sync::mpsc::{RecvTimeoutError, SendError};

    pub(crate) enum Sender<T> {
        Plain(std::sync::mpsc::Sender<T>),
        Explored(shuttle::sync::mpsc::Sender<T>),
    }

    pub(crate) enum Receiver<T> {
        Plain(std::sync::mpsc::Receiver<T>),
        Explored(shuttle::sync::mpsc::Receiver<T>),
    }

    pub(crate) fn channel<T>() -> (Sender<T>, Receiver<T>) {
        if inside() {
            let (sender, receiver) = shuttle::sync::mpsc::channel();
            return (Sender::Explored(sender), Receiver::Explored(receiver));
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        (Sender::Plain(sender), Receiver::Plain(receiver))
    }

    impl<T> Sender<T> {
        pub(crate) fn send(&self, value: T) -> Result<(), SendError<T>> {
            match self {
                Sender::Plain(sender) => sender.send(value),
                Sender::Explored(sender) => sender.send(value),
            }
        }
    }

    impl<T> Receiver<T> {
        pub(crate) fn recv_timeout(&self, time: Duration) -> Result<T, RecvTimeoutError> {
            match self {
                Receiver::Plain(receiver) => receiver.recv_timeout(time),
                Receiver::Explored(receiver) => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            }
        }
    }
}
