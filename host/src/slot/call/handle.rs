//! What an engine is given in the place of a frame's address: a number that leads to the frame while it lives, and nowhere
//! afterwards. An engine that keeps it for longer than its call, or makes one up, reaches no memory of the host.

use super::frame::Frame;
use engine_abi::wire::FrameV1;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// Bits of a number that name the place; the others count how often it was taken.
const PLACE_BITS: u32 = 16;
/// Places that are made together.
const CHUNK: usize = 256;
const CHUNKS: usize = (1 << PLACE_BITS) / CHUNK;

/// Where a number leads.
#[derive(Default)]
struct Place {
    /// The number whose frame this is, or was.
    number: usize,
    frame: Weak<Frame>,
}

/// All places; made when they are first needed, and never freed.
static PLACES: [OnceLock<Box<[Mutex<Place>]>>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];
static FREE: Mutex<Free> = Mutex::new(Free { given_back: Vec::new(), unused: 0 });

struct Free {
    given_back: Vec<usize>,
    /// From here on no place was ever taken.
    unused: usize,
}

/// A number of a frame; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Handle {
    /// 0 when all places were taken: it leads nowhere, and every push and service call is refused.
    number: usize,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn place(at: usize) -> Option<&'static Mutex<Place>> {
    PLACES.get(at / CHUNK)?.get()?.get(at % CHUNK)
}

impl Handle {
    /// Takes a place.
    pub(crate) fn take() -> Handle {
        let at = {
            let mut free = locked(&FREE);
            match free.given_back.pop() {
                Some(at) => at,
                None if free.unused < CHUNK * CHUNKS => {
                    free.unused += 1;
                    free.unused - 1
                }
                None => return Handle { number: 0 },
            }
        };
        let chunk = PLACES[at / CHUNK].get_or_init(|| (0..CHUNK).map(|_| Mutex::default()).collect());
        let mut place = locked(&chunk[at % CHUNK]);
        let taken = (place.number >> PLACE_BITS) + 1;
        place.number = taken << PLACE_BITS | at;
        Handle { number: place.number }
    }

    /// From now on it leads to this frame.
    pub(crate) fn lead_to(&self, frame: &Arc<Frame>) {
        if let Some(place) = self.place() {
            locked(place).frame = Arc::downgrade(frame);
        }
    }

    fn place(&self) -> Option<&'static Mutex<Place>> {
        (self.number != 0).then(|| place(self.number & (CHUNK * CHUNKS - 1)))?
    }

    /// What crosses the border.
    pub(crate) fn pointer(&self) -> *const FrameV1 {
        std::ptr::without_provenance(self.number)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(place) = self.place() {
            locked(place).frame = Weak::new();
            locked(&FREE).given_back.push(self.number & (CHUNK * CHUNKS - 1));
        }
    }
}

/// The frame behind what an engine hands back; `None` for one that is gone, and for what never was one.
pub(crate) fn frame(pointer: *const FrameV1) -> Option<Arc<Frame>> {
    let number = pointer.addr();
    if number == 0 {
        return None;
    }
    let place = locked(place(number & (CHUNK * CHUNKS - 1))?);
    if place.number == number { place.frame.upgrade() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_leads_nowhere_once_it_was_given_back_and_none_comes_twice() {
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1_000 {
            let handle = Handle::take();
            assert!(seen.insert(handle.number) && handle.number != 0);
            assert!(frame(handle.pointer()).is_none(), "no frame yet");
        }
        assert!(frame(std::ptr::null()).is_none());
        for made_up in [1, 8, 4_711, usize::MAX, 1 << 40] {
            assert!(frame(std::ptr::without_provenance(made_up)).is_none());
        }
    }
}
