//! Packs numbers that differ little into few bytes each.

/// Numbers as their minimum and the difference of each to it, in the bytes that the largest
/// difference needs.
#[derive(Clone, Debug)]
pub(super) struct PackedColumn {
    base: u64,
    above: ValueWidth,
}

/// Differences to the minimum, by their size in bytes.
#[derive(Clone, Debug)]
enum ValueWidth {
    Nothing,
    Bytes1(Box<[u8]>),
    Bytes2(Box<[u16]>),
    Bytes4(Box<[u32]>),
    Bytes8(Box<[u64]>),
}

impl PackedColumn {
    pub(super) fn pack(values: &[u64]) -> Self {
        let base = values.iter().copied().min().unwrap_or(0);
        let most = values.iter().copied().max().unwrap_or(0) - base;
        let above = values.iter().map(|value| value - base);
        let above = if most == 0 {
            ValueWidth::Nothing
        } else if u8::try_from(most).is_ok() {
            ValueWidth::Bytes1(above.map(|value| value.to_le_bytes()[0]).collect())
        } else if u16::try_from(most).is_ok() {
            ValueWidth::Bytes2(
                above.map(|value| u16::try_from(value).unwrap_or(u16::MAX)).collect(),
            )
        } else if u32::try_from(most).is_ok() {
            ValueWidth::Bytes4(
                above.map(|value| u32::try_from(value).unwrap_or(u32::MAX)).collect(),
            )
        } else {
            ValueWidth::Bytes8(above.collect())
        };
        Self { base, above }
    }

    /// Returns the number at an index; the minimum beyond the end.
    pub(super) fn get(&self, at: usize) -> u64 {
        let above = match &self.above {
            ValueWidth::Nothing => None,
            ValueWidth::Bytes1(values) => values.get(at).copied().map(u64::from),
            ValueWidth::Bytes2(values) => values.get(at).copied().map(u64::from),
            ValueWidth::Bytes4(values) => values.get(at).copied().map(u64::from),
            ValueWidth::Bytes8(values) => values.get(at).copied(),
        };
        self.base + above.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacks_numbers_of_all_widths() {
        for most in [0, 1, 255, 256, 65_535, 65_536, u64::from(u32::MAX), u64::MAX - 9] {
            let values = [9, 9 + most, 9 + most / 2];
            let column = PackedColumn::pack(&values);
            assert_eq!([0, 1, 2].map(|at| column.get(at)), values);
        }
        assert_eq!(PackedColumn::pack(&[]).get(0), 0);
    }
}
