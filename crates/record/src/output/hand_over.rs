//! Threads, and locks and channels between them: the standard library's. Built with `--cfg shuttle`
//! they are those of a scheduler that picks the next thread at random, so tests cover interleavings
//! that a machine may never produce, and detect deadlocks (`./x shuttle`).

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
