//! A scripted kernel for tests of behaviour that depends on hardware, limits or privileges.

use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::os::fd::{BorrowedFd, RawFd};
use std::rc::Rc;

use rustix::io::Errno;
use tare_format::abi::bindings::{PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE, PERF_TYPE_RAW};
use tare_format::abi::{Attr, ReadFormat};

use crate::mapping::{Access, Mapping};
use crate::open::{EventFile, EventTarget, Kernel};

/// The answer to opening a matching event.
#[derive(Clone, Copy, Debug)]
pub enum ScriptedAnswer {
    /// Opening fails.
    Refuse(Errno),
    /// It opens, and a read returns value, nanoseconds enabled, nanoseconds running.
    Count(u64, u64, u64),
    /// It opens, but like a pinned event without a free counter: a read returns end of file.
    NoCounter,
}

type Fits = Box<dyn Fn(&Attr, EventTarget) -> bool>;

/// A kernel that applies the first matching rule; without one an event opens and counts 0.
#[derive(Default)]
pub struct Scripted {
    rules: Vec<(Fits, ScriptedAnswer)>,
    /// Free descriptors; `None`: unlimited.
    files_left: Rc<Cell<Option<usize>>>,
    /// Free hardware counters; `None`: unlimited.
    counters_left: Rc<Cell<Option<usize>>>,
    /// Most bytes of data of a ring; `None`: unlimited.
    lockable: Option<usize>,
    opened: RefCell<Vec<(Attr, EventTarget)>>,
    calls: Rc<RefCell<Vec<String>>>,
}

impl Scripted {
    /// Creates a kernel that opens everything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rule.
    #[must_use]
    pub fn rule(
        mut self,
        fits: impl Fn(&Attr, EventTarget) -> bool + 'static,
        answer: ScriptedAnswer,
    ) -> Self {
        self.rules.push((Box::new(fits), answer));
        self
    }

    /// Limits the number of open events; more give `EMFILE`.
    #[must_use]
    pub fn files(self, number: usize) -> Self {
        self.files_left.set(Some(number));
        self
    }

    /// Limits the number of events of the CPU's PMU that get a counter; a further one opens and
    /// never runs.
    #[must_use]
    pub fn counters(self, number: usize) -> Self {
        self.counters_left.set(Some(number));
        self
    }

    /// Limits a ring's bytes of data; more give `EPERM`.
    #[must_use]
    pub fn lockable(mut self, bytes: usize) -> Self {
        self.lockable = Some(bytes);
        self
    }

    /// Returns the opened events in order.
    pub fn opened(&self) -> Vec<(Attr, EventTarget)> {
        self.opened.borrow().clone()
    }

    /// Returns the calls that change open events in order: `enable 3`, `disable 3`, `output 3 4`,
    /// `pause 3 true`, `filter 3 prev_pid != 0`, `period 3
    /// 1000`, with the descriptors' numbers.
    pub fn calls(&self) -> Vec<String> {
        self.calls.borrow().clone()
    }
}

impl Kernel for Scripted {
    fn open(
        &self,
        attr: &Attr,
        target: EventTarget,
        _leader: Option<&dyn EventFile>,
    ) -> Result<Box<dyn EventFile>, Errno> {
        let rule = self.rules.iter().find(|(fits, _)| fits(attr, target));
        let answer = rule.map_or(ScriptedAnswer::Count(0, 0, 0), |&(_, answer)| answer);
        if let ScriptedAnswer::Refuse(error) = answer {
            return Err(error);
        }
        match self.files_left.get() {
            Some(0) => return Err(Errno::MFILE),
            Some(left) => self.files_left.set(Some(left - 1)),
            None => {}
        }
        let takes_counter =
            matches!(attr.kind, PERF_TYPE_HARDWARE | PERF_TYPE_HW_CACHE | PERF_TYPE_RAW);
        let found_counter = takes_counter && self.counters_left.get().is_none_or(|left| left > 0);
        let answer =
            if takes_counter && !found_counter { ScriptedAnswer::NoCounter } else { answer };
        if found_counter {
            self.counters_left.set(self.counters_left.get().map(|left| left - 1));
        }
        let mut opened = self.opened.borrow_mut();
        opened.push((attr.clone(), target));
        let fd = RawFd::try_from(opened.len() + 2).map_err(|_| Errno::MFILE)?;
        Ok(Box::new(ScriptedFile {
            fd,
            answer,
            format: attr.read_format,
            files_left: Rc::clone(&self.files_left),
            counter_of: found_counter.then(|| Rc::clone(&self.counters_left)),
            lockable: self.lockable,
            calls: Rc::clone(&self.calls),
        }))
    }
}

#[derive(Debug)]
struct ScriptedFile {
    fd: RawFd,
    answer: ScriptedAnswer,
    format: ReadFormat,
    files_left: Rc<Cell<Option<usize>>>,
    /// The pool that its counter returns to.
    counter_of: Option<Rc<Cell<Option<usize>>>>,
    lockable: Option<usize>,
    calls: Rc<RefCell<Vec<String>>>,
}

impl Drop for ScriptedFile {
    fn drop(&mut self) {
        for left in [Some(&self.files_left), self.counter_of.as_ref()].into_iter().flatten() {
            left.set(left.get().map(|left| left + 1));
        }
    }
}

impl EventFile for ScriptedFile {
    fn raw_fd(&self) -> RawFd {
        self.fd
    }

    fn wakes(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn read(&self, into: &mut [u8]) -> Result<usize, Errno> {
        let ScriptedAnswer::Count(value, enabled, running) = self.answer else { return Ok(0) };
        let mut words = vec![value];
        words.extend(self.format.contains(ReadFormat::TOTAL_TIME_ENABLED).then_some(enabled));
        words.extend(self.format.contains(ReadFormat::TOTAL_TIME_RUNNING).then_some(running));
        let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        into.get_mut(..bytes.len()).ok_or(Errno::NOSPC)?.copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn enable(&self) -> Result<(), Errno> {
        self.calls.borrow_mut().push(format!("enable {}", self.fd));
        Ok(())
    }

    fn disable(&self) -> Result<(), Errno> {
        self.calls.borrow_mut().push(format!("disable {}", self.fd));
        Ok(())
    }

    fn set_filter(&self, filter: &CStr) -> Result<(), Errno> {
        self.calls.borrow_mut().push(format!("filter {} {}", self.fd, filter.to_string_lossy()));
        Ok(())
    }

    fn set_period(&self, period: u64) -> Result<(), Errno> {
        self.calls.borrow_mut().push(format!("period {} {period}", self.fd));
        Ok(())
    }

    fn id(&self) -> Result<u64, Errno> {
        Ok(self.fd.unsigned_abs().into())
    }

    fn map_ring(&self, size: usize, _access: Access) -> Result<Mapping, Errno> {
        match self.lockable {
            Some(most) if size > most => Err(Errno::PERM),
            _ => Mapping::stand_in(size),
        }
    }

    fn set_output(&self, ring_of: &dyn EventFile) -> Result<(), Errno> {
        self.calls.borrow_mut().push(format!("output {} {}", self.fd, ring_of.raw_fd()));
        Ok(())
    }

    fn pause_output(&self, pause: bool) -> Result<(), Errno> {
        self.calls.borrow_mut().push(format!("pause {} {pause}", self.fd));
        Ok(())
    }
}
