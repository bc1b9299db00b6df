//! The handlers: they write the cause and let the process end as it would have ended without them.

use super::{Found, context, for_handler, record};
use crate::ledger::format::kind;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// Signals that a fault raises.
const FAULTS: [libc::c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGSYS, libc::SIGTRAP];
/// Signals by which others end a process. Watched only where they would end it at once.
const ENDS: [libc::c_int; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// What was there before, for each of both lists.
static BEFORE: OnceLock<Vec<(libc::c_int, libc::sigaction)>> = OnceLock::new();

/// Installs the handlers, once per process. What others installed before is asked after ours.
pub(in super::super) fn install() {
    let before = || {
        let known =
            FAULTS.into_iter().map(|signal| (signal, true)).chain(ENDS.into_iter().map(|signal| (signal, false)));
        known
            .filter_map(|(signal, fault)| {
                let before = current(signal)?;
                let ignored = before.sa_sigaction == libc::SIG_IGN;
                let free = before.sa_sigaction == libc::SIG_DFL;
                (free || fault && !ignored).then_some((signal, before))
            })
            .collect()
    };
    let mut first = false;
    let before = BEFORE.get_or_init(|| {
        first = true;
        before()
    });
    if !first {
        return;
    }
    for (signal, _) in before {
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_signal;
        set(*signal, handler as libc::sighandler_t, libc::SA_SIGINFO | libc::SA_ONSTACK);
    }
}

/// True when this process was started with the signal ignored, or ignores it now.
pub fn is_ignored(signal: libc::c_int) -> bool {
    current(signal).is_some_and(|action| action.sa_sigaction == libc::SIG_IGN)
}

fn current(signal: libc::c_int) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: only asks; when it says 0 the action was written.
    unsafe { (libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0).then(|| action.assume_init()) }
}

fn set(signal: libc::c_int, handler: libc::sighandler_t, flags: libc::c_int) {
    // SAFETY: zeroes are an action without flags and mask; the handler lives for ever.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn on_signal(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: what the system gave. The sender stands there for signals that were sent, and means nothing for others.
    let (code, sender, address) = unsafe {
        match info.as_ref() {
            Some(info) => (info.si_code, info.si_pid(), info.si_addr() as u64),
            None => (0, 0, 0),
        }
    };
    let sent = code <= 0;
    if let Some(map) = for_handler() {
        // SAFETY: what the system gave.
        let (pc, stack) = unsafe { context::stood(context) };
        let (sender, address) = if sent { (i64::from(sender), 0) } else { (0, address) };
        record(
            map,
            &Found { kind: kind::SIGNAL, number: i64::from(signal), code: i64::from(code), sender, address, pc, stack },
        );
    }
    go_on(signal, sent, info, context);
}

/// Does what would have happened without us.
fn go_on(signal: libc::c_int, sent: bool, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = BEFORE.get().and_then(|all| all.iter().find(|(known, _)| *known == signal));
    // The runtime's own handler of faults tells of a stack overflow; one that was only sent it would swallow.
    let runtimes = sent && (signal == libc::SIGSEGV || signal == libc::SIGBUS);
    match before {
        Some((_, action)) if action.sa_sigaction != libc::SIG_DFL && !runtimes => {
            let handler = action.sa_sigaction;
            // SAFETY: what was installed before, called as it was to be called.
            unsafe {
                if action.sa_flags & libc::SA_SIGINFO != 0 {
                    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                        std::mem::transmute(handler);
                    handler(signal, info, context);
                } else {
                    let handler: extern "C" fn(libc::c_int) = std::mem::transmute(handler);
                    handler(signal);
                }
            }
        }
        _ => {
            set(signal, libc::SIG_DFL, 0);
            // A fault happens again when the handler returns, with everything that a debugger wants to see; the others do not.
            let again = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE].contains(&signal);
            if sent || !again {
                // SAFETY: has no preconditions; the signal is held back until the handler returns.
                unsafe { libc::raise(signal) };
            }
        }
    }
}
