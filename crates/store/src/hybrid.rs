//! Parquet's encoding of small numbers: runs of one value, and groups of eight packed into bits.

use parquet::errors::ParquetError;

/// Position in a sequence of encoded numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HybridCursor {
    /// The next byte that belongs to no run yet.
    at: usize,
    end: usize,
    /// Bits per number.
    width: u32,
    /// Numbers left in the current run.
    left: usize,
    run: RunKind,
}

#[derive(Clone, Copy, Debug)]
enum RunKind {
    /// All numbers of the run are this one.
    Repeated(u32),
    /// The next number begins at this bit.
    Packed(usize),
}

impl Default for RunKind {
    fn default() -> Self {
        Self::Repeated(0)
    }
}

impl HybridCursor {
    /// Begins at a place of a page.
    pub(crate) fn new(at: usize, end: usize, width: u32) -> Result<Self, ParquetError> {
        if width > 32 {
            return Err(ParquetError::General(format!("numbers of {width} bits")));
        }
        Ok(Self { at, end, width, ..Self::default() })
    }

    /// Returns the next numbers that are equal, `limit` at most, and how many they are.
    pub(crate) fn next_run(
        &mut self,
        page: &[u8],
        limit: usize,
    ) -> Result<(u32, usize), ParquetError> {
        self.begin_run(page)?;
        let most = self.left.min(limit);
        let (value, count) = match &mut self.run {
            RunKind::Repeated(value) => (*value, most),
            RunKind::Packed(bit) => {
                let first = unpack(page, *bit, self.width);
                let mut count = 1;
                *bit += self.width as usize;
                while count < most && unpack(page, *bit, self.width) == first {
                    count += 1;
                    *bit += self.width as usize;
                }
                (first, count)
            }
        };
        self.left -= count;
        Ok((value, count))
    }

    /// Appends `count` numbers plus `added`.
    pub(crate) fn read(
        &mut self,
        page: &[u8],
        count: usize,
        added: u32,
        out: &mut Vec<u32>,
    ) -> Result<(), ParquetError> {
        let mut missing = count;
        while missing > 0 {
            self.begin_run(page)?;
            let taken = self.left.min(missing);
            match &mut self.run {
                RunKind::Repeated(value) => {
                    out.resize(out.len() + taken, value.wrapping_add(added));
                }
                RunKind::Packed(bit) => {
                    let width = self.width;
                    let begin = *bit;
                    let numbers = (0..taken).map(|index| {
                        unpack(page, begin + index * width as usize, width).wrapping_add(added)
                    });
                    out.extend(numbers);
                    *bit += taken * width as usize;
                }
            }
            self.left -= taken;
            missing -= taken;
        }
        Ok(())
    }

    /// Passes over `count` numbers.
    pub(crate) fn skip(&mut self, page: &[u8], count: usize) -> Result<(), ParquetError> {
        let mut missing = count;
        while missing > 0 {
            self.begin_run(page)?;
            let taken = self.left.min(missing);
            if let RunKind::Packed(bit) = &mut self.run {
                *bit += taken * self.width as usize;
            }
            self.left -= taken;
            missing -= taken;
        }
        Ok(())
    }

    /// Reads a run's header if the last run has ended.
    fn begin_run(&mut self, page: &[u8]) -> Result<(), ParquetError> {
        while self.left == 0 {
            let header = self.varint(page)?;
            let count = usize::try_from(header >> 1).unwrap_or(usize::MAX);
            if header & 1 == 0 {
                let bytes = self.width.div_ceil(8) as usize;
                let value =
                    page.get(self.at..self.at + bytes).filter(|_| self.at + bytes <= self.end);
                let value = value.ok_or_else(short)?;
                let value = value.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
                self.run = RunKind::Repeated(value);
                self.left = count;
                self.at += bytes;
            } else {
                // The last group of a page may be cut by the page's end.
                let bytes = count.checked_mul(self.width as usize).ok_or_else(short)?;
                if count == 0 || bytes > self.end.saturating_sub(self.at) {
                    return Err(short());
                }
                self.run = RunKind::Packed(self.at * 8);
                self.left = count.checked_mul(8).ok_or_else(short)?;
                self.at += bytes;
            }
        }
        Ok(())
    }

    fn varint(&mut self, page: &[u8]) -> Result<u64, ParquetError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte =
                *page.get(..self.end).and_then(|page| page.get(self.at)).ok_or_else(short)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(short())
    }
}

/// Returns the number of `width` bits from bit `begin`. Bytes beyond the page are 0.
fn unpack(page: &[u8], begin: usize, width: u32) -> u32 {
    let at = begin / 8;
    let word = match page.get(at..at + 8) {
        Some(bytes) => {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            u64::from_le_bytes(word)
        }
        None => page
            .get(at..)
            .unwrap_or_default()
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    };
    let mask = (1_u64 << width) - 1;
    let value = word >> (begin % 8) & mask;
    // At most 32 bits are left by the mask.
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn short() -> ParquetError {
    ParquetError::EOF("a page ends within its values".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of three 5s, a group of 0 to 7, and a run of two 1s, with 3 bits each: the example
    /// group is the one of Parquet's specification.
    const PAGE: [u8; 8] = [3 << 1, 5, 1 << 1 | 1, 0b1000_1000, 0b1100_0110, 0b1111_1010, 2 << 1, 1];
    const NUMBERS: [u32; 13] = [5, 5, 5, 0, 1, 2, 3, 4, 5, 6, 7, 1, 1];

    fn cursor() -> HybridCursor {
        HybridCursor::new(0, PAGE.len(), 3).unwrap()
    }

    #[test]
    fn runs_and_groups_are_read_in_any_pieces() {
        for piece in 1..=NUMBERS.len() {
            let mut cursor = cursor();
            let mut numbers = Vec::new();
            for begin in (0..NUMBERS.len()).step_by(piece) {
                let count = piece.min(NUMBERS.len() - begin);
                cursor.read(&PAGE, count, 10, &mut numbers).unwrap();
            }
            assert_eq!(numbers, NUMBERS.map(|number| number + 10));
        }
    }

    #[test]
    fn skipping_leads_to_the_number_behind() {
        for (skipped, number) in NUMBERS.iter().enumerate() {
            let mut cursor = cursor();
            cursor.skip(&PAGE, skipped).unwrap();
            assert_eq!(cursor.next_run(&PAGE, 1).unwrap(), (*number, 1));
        }
    }

    #[test]
    fn equal_numbers_are_one_run() {
        let mut cursor = cursor();
        assert_eq!(cursor.next_run(&PAGE, 2).unwrap(), (5, 2));
        assert_eq!(cursor.next_run(&PAGE, 9).unwrap(), (5, 1));
        assert_eq!(cursor.next_run(&PAGE, 9).unwrap(), (0, 1));
    }

    #[test]
    fn damaged_numbers_are_an_error() {
        for end in 0..PAGE.len() {
            let mut cursor = HybridCursor::new(0, end, 3).unwrap();
            assert!(cursor.read(&PAGE[..end], NUMBERS.len(), 0, &mut Vec::new()).is_err());
        }
        let endless = [0xff; 16];
        let mut cursor = HybridCursor::new(0, 16, 3).unwrap();
        assert!(cursor.read(&endless, 1, 0, &mut Vec::new()).is_err());
        assert!(HybridCursor::new(0, 16, 33).is_err());
    }
}
