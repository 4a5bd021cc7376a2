//! An execve that leaves nothing of this process in the command's peak memory.
//!
//! The kernel carries the peak of a process's memory over execve (`exec_mmap` in `fs/exec.c` calls
//! `setmax_mm_hiwater_rss`), so `ru_maxrss` of a forked command is at least the size of its copy of
//! this process. A lean execve first unmaps that copy, except the code that runs and the strings
//! that execve reads. It then resets the peak: 5, written to `/proc/self/clear_refs`, sets it to the
//! present size.

mod code;
mod region;

use std::ffi::{CStr, CString, c_char, c_int};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::{io, mem};

use self::code::{KEPT, Launch, tare_lean_exec, tare_lean_exec_begin, tare_lean_exec_end};
use self::region::{Region, RegionWriter};

/// Byte that the child writes to its channel once its peak is reset.
pub(crate) const RESET: u8 = b's';

/// Bytes kept on each side of the thread pointer. The kernel writes to the thread's rseq area there
/// whenever the thread is moved to another CPU, and kills a process without it.
const THREAD_DATA: usize = 16 << 10;

/// The memory of a prepared execve: a [`Launch`], the arrays of pointers, and the strings.
#[derive(Debug)]
pub(crate) struct LeanExec {
    region: Region,
}

impl LeanExec {
    /// Prepares the execve of a program with these arguments, the first of which is its name, and
    /// this process's environment with these variables. `None` if memory is short, or the kernel doesn't tell where the
    /// stack ends; the caller then executes as usual.
    pub(crate) fn prepare(
        program: &CStr,
        arguments: &[CString],
        variables: &[CString],
    ) -> Option<Self> {
        let argv: Vec<&CStr> = arguments.iter().map(CString::as_c_str).collect();
        // For a script without '#!': sh SCRIPT ARGS, as execvp(3) does.
        let shell_argv: Vec<&CStr> =
            [c"sh", program].into_iter().chain(argv.iter().skip(1).copied()).collect();
        let environment = environment(variables);
        let single = [program, c"/bin/sh"];
        let arrays = [&argv[..], &shell_argv[..], &environment[..]];
        let strings = arrays.into_iter().flatten().copied().chain(single);
        let words: usize = arrays.iter().map(|array| array.len() + 1).sum();
        let bytes: usize = strings.map(|string| string.count_bytes() + 1).sum();
        let first_word = size_of::<Launch>();
        let first_byte = first_word + words * size_of::<usize>();
        let mut writer = RegionWriter {
            region: Region::map(first_byte + bytes)?,
            next_word: first_word,
            next_byte: first_byte,
        };
        let [argv, shell_argv, environment] = arrays.map(|array| writer.put_array(array));
        let [program, shell] = single.map(|string| writer.put_string(string));
        let region = writer.region;
        region.put(
            0,
            Launch {
                gaps: gaps(&region)?,
                clear_refs: usize::MAX,
                channel: usize::MAX,
                program,
                argv,
                environment,
                shell,
                shell_argv,
                errno: 0,
                order: [b'5', RESET],
            },
        );
        Some(Self { region })
    }

    /// Executes the program in a forked child. Exits with 126 if that fails, after the errno is
    /// written to the channel.
    pub(crate) fn execute(&self, channel: BorrowedFd<'_>) -> ! {
        // SAFETY: the path is a C string. The descriptor is closed by the execve.
        #[allow(unsafe_code)]
        let clear_refs = unsafe {
            libc::open(c"/proc/self/clear_refs".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC)
        };
        // A negative descriptor makes the write fail, and the command start without a reset.
        let word = |fd: c_int| usize::try_from(fd).unwrap_or(usize::MAX);
        self.region.put(mem::offset_of!(Launch, clear_refs), word(clear_refs));
        self.region.put(mem::offset_of!(Launch, channel), word(channel.as_raw_fd()));
        // SAFETY: this process is a forked child, so nothing else uses its memory. The code uses
        // nothing but itself and the region, neither of which it unmaps, and never returns.
        #[allow(unsafe_code)]
        unsafe {
            tare_lean_exec(self.region.start.cast())
        }
    }
}

/// Returns the strings of this process's environment, with these instead of those of the same name.
pub(crate) fn environment(variables: &[CString]) -> Vec<&CStr> {
    let name =
        |string: &CStr| string.to_bytes().split(|byte| *byte == b'=').next().map(<[u8]>::len);
    let is_replaced = |string: &CStr| {
        variables.iter().any(|variable| {
            name(variable) == name(string)
                && name(string).is_some_and(|length| {
                    variable.to_bytes()[..length] == string.to_bytes()[..length]
                })
        })
    };
    let mut strings: Vec<&CStr> = variables.iter().map(CString::as_c_str).collect();
    // SAFETY: the array ends with a null pointer and holds pointers to C strings; nothing in tare
    // changes it.
    #[allow(unsafe_code)]
    unsafe {
        let mut next = environ;
        while !next.is_null() && !(*next).is_null() {
            let string = CStr::from_ptr(*next);
            if !is_replaced(string) {
                strings.push(string);
            }
            next = next.add(1);
        }
    }
    strings
}

/// Returns the ranges between the kept ones, from address 0 to the end of the stack, as start and
/// length.
fn gaps(region: &Region) -> Option<[[usize; 2]; KEPT + 1]> {
    let page = rustix::param::page_size();
    let end = stack_end()?;
    let code = (&raw const tare_lean_exec_begin).addr();
    let code_end = (&raw const tare_lean_exec_end).addr();
    let thread = thread_pointer();
    let mut kept = [
        [code, code_end],
        [region.start.addr(), region.start.addr() + region.length],
        [thread.saturating_sub(THREAD_DATA), thread + THREAD_DATA],
    ]
    .map(|[start, end]| [start / page * page, end.next_multiple_of(page)]);
    kept.sort_unstable();
    let mut gaps = [[0; 2]; KEPT + 1];
    let mut from = 0;
    for (gap, [start, kept_end]) in gaps.iter_mut().zip(kept) {
        *gap = [from, start.min(end).saturating_sub(from)];
        from = from.max(kept_end);
    }
    gaps[KEPT] = [from, end.next_multiple_of(page).saturating_sub(from)];
    Some(gaps)
}

/// Returns an address in the last page of the stack: the end of the file name that the kernel puts
/// above the environment.
fn stack_end() -> Option<usize> {
    // SAFETY: the value is a pointer to a C string, or 0.
    #[allow(unsafe_code)]
    unsafe {
        let name = libc::getauxval(libc::AT_EXECFN) as *const c_char;
        (!name.is_null()).then(|| name.addr() + CStr::from_ptr(name).count_bytes() + 1)
    }
}

/// Returns the address of the thread's own data.
fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads a register; on x86-64 the word at its address holds the address itself.
    #[allow(unsafe_code)]
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly));
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem));
    }
    pointer
}

// SAFETY: POSIX defines this variable (environ(7)); the `libc` crate names it for some C libraries
// only.
#[allow(unsafe_code)]
unsafe extern "C" {
    pub(crate) static environ: *const *const c_char;
}

/// Returns the peak of this process's memory in bytes, which a command without a lean execve starts
/// with.
pub(crate) fn own_peak() -> io::Result<u64> {
    let mut usage = mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a local of the right type, for which zeros are a valid value.
    #[allow(unsafe_code)]
    let usage = unsafe {
        if libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        usage.assume_init()
    };
    Ok(u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_lie_between_the_kept_ranges() {
        let region = Region::map(1).unwrap();
        let gaps = gaps(&region).unwrap();
        let kept = [
            region.start.addr(),
            thread_pointer(),
            (&raw const tare_lean_exec_begin).addr(),
            (&raw const tare_lean_exec_end).addr(),
        ];
        let is_in_gap = |address: usize| {
            gaps.iter().any(|[start, length]| (*start..start + length).contains(&address))
        };
        assert!(!kept.into_iter().any(is_in_gap), "{gaps:x?}, {kept:x?}");
        let local = 0;
        let function = (gaps_lie_between_the_kept_ranges as fn()) as usize;
        let heap = Box::new(0);
        assert!(is_in_gap((&raw const *heap).addr()), "the heap: {gaps:x?}");
        assert!(is_in_gap((&raw const local).addr()) || is_in_gap(stack_end().unwrap() - 1));
        assert!(is_in_gap(function) || function / 4096 == kept[2] / 4096, "{gaps:x?}");
    }
}
