//! User call chains of which a recording has the makings: registers, and a copy of the stack.

use tare_format::record::{Registers as Recorded, Sample};
use tare_symbols::{AddressSpaces, DsoTable, Registers, SymbolOptions, Unwinder, Unwound};

/// `PERF_SAMPLE_REGS_ABI_64`.
const ABI_64: u64 = 2;

/// Unwinds copies of stacks, and counts how far that went.
#[derive(Debug)]
pub(crate) struct CopiedStacks {
    unwinder: Unwinder,
    pub(crate) unwound: u64,
    pub(crate) incomplete: u64,
}

impl CopiedStacks {
    pub(crate) fn new(options: SymbolOptions) -> Self {
        Self { unwinder: Unwinder::new(options), unwound: 0, incomplete: 0 }
    }

    /// The user part of a sample's call chain, the innermost address first, at most `most`; nothing
    /// where there is no copy of its stack.
    pub(crate) fn unwind(
        &mut self,
        (dsos, spaces): (&DsoTable, &AddressSpaces),
        sample: &Sample<'_>,
        most: usize,
        addresses: &mut Vec<u64>,
    ) {
        addresses.clear();
        let (Some(recorded), Some(stack)) =
            (sample.regs_user, sample.stack_user.filter(|stack| stack.room > 0))
        else {
            return;
        };
        // A thread of the kernel has no user stack.
        if recorded.abi == 0 {
            return;
        }
        self.unwound += 1;
        let space = sample.head.pid.and_then(|pid| spaces.of(pid));
        let end = match registers(&recorded).zip(space) {
            Some((registers, space)) => {
                self.unwinder.unwind((dsos, space), &registers, stack.bytes, most, addresses)
            }
            None => Unwound::Incomplete,
        };
        self.incomplete += u64::from(end == Unwound::Incomplete);
    }
}

/// The registers that unwinding needs; `None` where they were not recorded. Their numbers tell the
/// machine: an instruction pointer is 8 on x86 and 32 on ARM
/// (`arch/*/include/uapi/asm/perf_regs.h`), and user registers of x86 end before 32.
fn registers(recorded: &Recorded<'_>) -> Option<Registers> {
    const PC: u32 = 32;
    let get = |number| recorded.get(number);
    if recorded.abi != ABI_64 {
        return None;
    }
    if let Some(pc) = get(PC) {
        return Some(Registers::Aarch64 { pc, lr: get(30)?, sp: get(31)?, fp: get(29)? });
    }
    let (ip, _sp) = (get(8)?, get(7)?);
    // AX, DX, CX, BX, SI, DI, BP, SP, R8 to R15
    let general = [0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23]
        .map(|number| get(number).unwrap_or(0));
    Some(Registers::X86_64 { ip, general })
}
