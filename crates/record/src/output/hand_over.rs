//! What threads hand over to each other by: the standard library's locks and channels. Built with
//! `--cfg shuttle` they are those of a scheduler that draws who runs next, so that an order which no
//! machine may ever take is tried, and a wait that nobody ends is noticed (`./x shuttle`).

#[cfg(shuttle)]
pub(super) use shuttle::{
    sync::{Condvar, Mutex, MutexGuard, mpsc},
    thread,
};
#[cfg(not(shuttle))]
pub(super) use std::{
    sync::{Condvar, Mutex, MutexGuard, mpsc},
    thread,
};
