//! The hand-off: a segment's work goes to a thread of its engine, and the side that waits keeps the time.

use super::call::frame::{Frame, Tick};
use super::call::guarded::Limits;
use super::core::{EngineCore, QUEUE_WAIT};
use super::engine::EngineRef;
use super::facts::CancelFlag;
use super::failure::{FailureKind, HookFailure};
use super::hook::Hook;
use super::instance::Instance;
use super::segment::{Segment, SegmentContext};
use super::services::NoServices;
use crate::observe::broken;
use crate::sync::mpsc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Runs the work on this thread, unwatched: for the statically linked engine, which is as trusted as the gateway.
pub(crate) fn inline<T>(
    engine: &EngineRef,
    context: SegmentContext,
    work: impl FnOnce(&mut Segment) -> T,
) -> Result<T, HookFailure> {
    let frame = Frame::of(&engine.core, &context);
    frame.start();
    run(engine, context, &frame, work)
}

/// Takes the instance (made here at first use) and runs the work in it.
fn run<T>(
    engine: &EngineRef,
    context: SegmentContext,
    frame: &Arc<Frame>,
    work: impl FnOnce(&mut Segment) -> T,
) -> Result<T, HookFailure> {
    let instance = engine.core.instances.enter(&engine.key, frame)?;
    let mut segment = Segment::new(Arc::clone(&instance), Arc::clone(frame), context);
    let result = work(&mut segment);
    instance.inside.fetch_sub(1, Ordering::AcqRel);
    Ok(result)
}

/// Gives the work to a thread; `send` gets what comes of it, unless the work was withdrawn or given up.
fn submit<T: Send + 'static>(
    engine: &EngineRef,
    context: SegmentContext,
    work: impl FnOnce(&mut Segment) -> T + Send + 'static,
    send: impl FnOnce(Result<T, HookFailure>) + Send + 'static,
) -> Result<Watch, HookFailure> {
    let core = &engine.core;
    if let Some(failure) = core.out(Hook::Factory) {
        return Err(failure);
    }
    if let Some(reason) = core.spent() {
        return Err(core.not_made(Hook::Factory, FailureKind::Busy, &reason));
    }
    if core.closing.load(Ordering::Acquire) && !broken("8.43") {
        return Err(core.not_made(Hook::Factory, FailureKind::Busy, "the gateway is stopping"));
    }
    let frame = Frame::of(core, &context);
    let watch = Watch {
        frame: Arc::clone(&frame),
        queue_until: Instant::now() + QUEUE_WAIT,
        shortest: core.shortest_deadline(context.deadline),
        limits: context.limits(),
        give_way: context.background.map(|background| background.give_way),
    };
    let engine = engine.clone();
    let job = move || {
        if !frame.start() {
            return;
        }
        let result = run(&engine, context, &frame, work);
        if frame.abandoned() {
            engine.core.came_back(frame.running());
        } else {
            send(result);
        }
    };
    core.pool.submit(job).map_err(|error| {
        let reason = format!("the system gives no thread: {error}");
        core.not_made(Hook::Factory, FailureKind::Busy, &reason)
    })?;
    Ok(watch)
}

/// What the waiting side keeps of a segment.
pub(crate) struct Watch {
    frame: Arc<Frame>,
    queue_until: Instant,
    shortest: Duration,
    limits: Limits,
    /// How long the running hook may go on once the work was cancelled; `None`: until its deadline.
    give_way: Option<Duration>,
}

impl Watch {
    /// When to look again, or how the segment ended without a value.
    fn look(&self) -> Result<Instant, HookFailure> {
        let core = &self.frame.core;
        match self.frame.tick(Instant::now(), self.queue_until, self.shortest) {
            Tick::Wait(until) => Ok(until),
            Tick::Abandoned(hook, had) => Err(core.gave_up(hook, had, self.limits)),
            Tick::Withdrawn => {
                let reason = format!("no thread of the engine was free for {} ms", QUEUE_WAIT.as_millis());
                Err(core.not_made(Hook::Factory, FailureKind::Busy, &reason))
            }
        }
    }

    /// The thread ended the work without a value: the host's own part of it panicked.
    fn lost(&self) -> HookFailure {
        let hook = self.frame.running();
        self.frame.core.not_made(hook, FailureKind::Busy, "the host's work on the engine's thread panicked")
    }
}

type Receiver<T> = oneshot::Receiver<Result<T, HookFailure>>;

/// Waits for the end of a segment, looking at the clock.
async fn finish<T>(watch: &Watch, receiver: &mut Receiver<T>) -> Result<T, HookFailure> {
    let mut give_way = watch.give_way;
    loop {
        let until = watch.look()?;
        tokio::select! {
            biased;
            result = &mut *receiver => return result.unwrap_or_else(|_| Err(watch.lost())),
            () = watch.frame.cancel.cancelled(), if give_way.is_some() => {
                let patience = give_way.take().unwrap_or_default();
                watch.frame.shorten(Instant::now() + patience);
            }
            () = tokio::time::sleep_until(until.into()) => {}
        }
    }
}

/// A segment that is waited for. Dropped before its end, it stays watched.
struct Waiting<T: Send + 'static> {
    parts: Option<(Watch, Receiver<T>)>,
}

impl<T: Send + 'static> Drop for Waiting<T> {
    fn drop(&mut self) {
        let Some((watch, mut receiver)) = self.parts.take() else { return };
        watch.frame.cancel.cancel();
        if let Some(runtime) = watch.frame.core.runtime.clone() {
            runtime.spawn(async move {
                // The caller is gone; what counts is that a hook that never returns is noticed.
                let _ = finish(&watch, &mut receiver).await;
            });
        }
    }
}

/// See [`EngineRef::segment`].
pub(crate) async fn hand_off<T: Send + 'static>(
    engine: &EngineRef,
    context: SegmentContext,
    work: impl FnOnce(&mut Segment) -> T + Send + 'static,
) -> Result<T, HookFailure> {
    let (sender, receiver) = oneshot::channel();
    let watch = submit(engine, context, work, move |result| drop(sender.send(result)))?;
    let mut waiting = Waiting { parts: Some((watch, receiver)) };
    let Some((watch, receiver)) = waiting.parts.as_mut() else { std::future::pending().await };
    let result = finish(watch, receiver).await;
    waiting.parts = None;
    result
}

/// A disposal that was handed to a thread.
pub(crate) struct Disposal {
    watch: Watch,
    receiver: mpsc::Receiver<Result<(), HookFailure>>,
}

impl Disposal {
    /// Waits for it, at most for its deadline and the grace.
    pub(crate) fn finish(self) -> Result<(), HookFailure> {
        wait(&self.watch, &self.receiver)
    }
}

/// Hands the disposal of an instance to a thread of its engine; nothing to wait for when it is done at once, or not possible.
pub(crate) fn dispose(core: &Arc<EngineCore>, instance: Arc<Instance>, until: Instant) -> Option<Disposal> {
    if instance.inside.load(Ordering::Acquire) != 0 {
        tracing::warn!(engine = %core.id, "an instance is not disposed: a call is still inside");
        return None;
    }
    let cap = Some(until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)));
    let frame = Frame::new(Arc::clone(core), Arc::new(NoServices), CancelFlag::new());
    if core.inline {
        frame.start();
        let _ = instance.dispose(&frame, cap);
        return None;
    }
    let watch = Watch {
        frame: Arc::clone(&frame),
        queue_until: until,
        shortest: core.shortest_deadline(cap),
        limits: Limits::cap(cap),
        give_way: None,
    };
    let (sender, receiver) = mpsc::channel();
    let job = move || {
        if frame.start() {
            let result = instance.dispose(&frame, cap);
            if frame.abandoned() {
                frame.core.came_back(frame.running());
            } else {
                // The waiting side may have been told already that the time is over.
                let _ = sender.send(result);
            }
        }
    };
    core.pool.submit(job).ok()?;
    Some(Disposal { watch, receiver })
}

/// See [`EngineRef::segment_blocking`].
pub(crate) fn hand_off_blocking<T: Send + 'static>(
    engine: &EngineRef,
    context: SegmentContext,
    work: impl FnOnce(&mut Segment) -> T + Send + 'static,
) -> Result<T, HookFailure> {
    let (sender, receiver) = mpsc::channel();
    let watch = submit(engine, context, work, move |result| drop(sender.send(result)))?;
    wait(&watch, &receiver)
}

/// Waits on a thread that may block.
fn wait<T>(watch: &Watch, receiver: &mpsc::Receiver<Result<T, HookFailure>>) -> Result<T, HookFailure> {
    loop {
        let until = watch.look()?;
        match receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(result) => return result,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return Err(watch.lost()),
        }
    }
}
