//! Whether tables of call frames can make their reader work without end.
//!
//! An expression (DWARF 5, section 2.5) may jump backwards, and so go on for ever: the
//! library that evaluates it has no limit. Compilers make no such expressions. The instructions of one function may be
//! as long as the file.

use framehop::ExplicitModuleSectionInfo;
use gimli::{
    BaseAddresses, CallFrameInstruction, CieOrFde, DebugFrame, EhFrame, EhFrameHdr, EndianSlice,
    FrameDescriptionEntry, LittleEndian, Operation, UnwindExpression, UnwindSection,
};

use crate::limits;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Whether each entry that can be found ends soon. Entries are gone through as unwinding looks for
/// them: by the sorted table where there is one, else one after the other.
pub(super) fn is_bounded(sections: &ExplicitModuleSectionInfo<Vec<u8>>) -> bool {
    let start =
        |range: &Option<std::ops::Range<u64>>| range.as_ref().map_or(0, |range| range.start);
    let bases = BaseAddresses::default()
        .set_eh_frame(start(&sections.eh_frame_svma))
        .set_eh_frame_hdr(start(&sections.eh_frame_hdr_svma))
        .set_text(start(&sections.text_svma))
        .set_got(start(&sections.got_svma));
    match (&sections.eh_frame, &sections.eh_frame_hdr, &sections.debug_frame) {
        (Some(eh_frame), Some(sorted), _) => is_sorted_bounded(eh_frame, sorted, &bases),
        (Some(eh_frame), None, _) => {
            is_section_bounded(&with_wide_addresses(eh_frame), eh_frame.len(), &bases)
        }
        (None, _, Some(debug_frame)) => {
            let mut section = DebugFrame::new(debug_frame, LittleEndian);
            section.set_address_size(8);
            is_section_bounded(&section, debug_frame.len(), &bases)
        }
        (None, _, None) => true,
    }
}

fn with_wide_addresses(eh_frame: &[u8]) -> EhFrame<Bytes<'_>> {
    let mut section = EhFrame::new(eh_frame, LittleEndian);
    section.set_address_size(8);
    section
}

fn is_sorted_bounded(eh_frame: &[u8], sorted: &[u8], bases: &BaseAddresses) -> bool {
    let section = with_wide_addresses(eh_frame);
    let Ok(sorted) = EhFrameHdr::new(sorted, LittleEndian).parse(bases, 8) else { return true };
    let Some(table) = sorted.table() else { return true };
    let mut entries = table.iter(bases);
    let mut work = Work::new(eh_frame.len());
    while let Ok(Some((_, pointer))) = entries.next() {
        let entry = table
            .pointer_to_offset(pointer)
            .and_then(|offset| section.fde_from_offset(bases, offset, EhFrame::cie_from_offset));
        // What can't be read has no instructions.
        if entry.is_ok_and(|entry| !work.is_bounded(&section, &entry, bases)) {
            return false;
        }
    }
    true
}

fn is_section_bounded<'a, S: UnwindSection<Bytes<'a>>>(
    section: &S,
    size: usize,
    bases: &BaseAddresses,
) -> bool {
    let mut entries = section.entries(bases);
    let mut work = Work::new(size);
    while let Ok(Some(entry)) = entries.next() {
        if let CieOrFde::Fde(entry) = entry
            && entry
                .parse(S::cie_from_offset)
                .is_ok_and(|entry| !work.is_bounded(section, &entry, bases))
        {
            return false;
        }
    }
    true
}

/// How much may still be looked at: entries may overlap, and so be many more than fit into the
/// section.
struct Work {
    left: usize,
    /// What functions have in common, where it was looked at last.
    common: Option<usize>,
}

impl Work {
    fn new(section: usize) -> Self {
        Self { left: section.saturating_mul(2), common: None }
    }

    fn is_bounded<'a, S: UnwindSection<Bytes<'a>>>(
        &mut self,
        section: &S,
        entry: &FrameDescriptionEntry<Bytes<'a>>,
        bases: &BaseAddresses,
    ) -> bool {
        let common = entry.cie();
        if self.common != Some(common.offset()) {
            self.common = Some(common.offset());
            if !self.takes(common.entry_len())
                || !all(&mut common.instructions(section, bases), section, common.encoding())
            {
                return false;
            }
        }
        self.takes(entry.entry_len())
            && all(&mut entry.instructions(section, bases), section, common.encoding())
    }

    fn takes(&mut self, bytes: usize) -> bool {
        let left = self.left.checked_sub(bytes).filter(|_| bytes <= limits::UNWIND_INSTRUCTIONS);
        self.left = left.unwrap_or(0);
        left.is_some()
    }
}

/// Whether no expression of the instructions jumps backwards.
fn all<'a, S: UnwindSection<Bytes<'a>>>(
    instructions: &mut gimli::CallFrameInstructionIter<'_, Bytes<'a>>,
    section: &S,
    encoding: gimli::Encoding,
) -> bool {
    let ends = |expression: &UnwindExpression<usize>| {
        let Ok(expression) = expression.get::<Bytes<'a>, S>(section) else { return true };
        let mut operations = expression.operations(encoding);
        while let Ok(Some(operation)) = operations.next() {
            if matches!(operation, Operation::Skip { target } | Operation::Bra { target } if target < 0)
            {
                return false;
            }
        }
        true
    };
    while let Ok(Some(instruction)) = instructions.next() {
        let expression = match instruction {
            CallFrameInstruction::DefCfaExpression { expression }
            | CallFrameInstruction::Expression { expression, .. }
            | CallFrameInstruction::ValExpression { expression, .. } => expression,
            _ => continue,
        };
        if !ends(&expression) {
            return false;
        }
    }
    true
}
