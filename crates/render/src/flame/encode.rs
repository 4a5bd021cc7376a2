//! A compact encoding of the tree and its rows: LEB128 numbers in base 64.
//!
//! ```text
//! nodes  for each except the root: levels up from the previous node, function
//! rows   for each recording, event and thread: these three, number of rows, and for each row:
//!        nodes since the previous row,
//!        slice (if the node is the same: slices since the previous row),
//!        2 * samples, then the period; or 2 * samples + 1 if the period is samples * usual
//! ```

use super::graph::Graph;

/// Numbers in LEB128: 7 bits per byte, the lowest first; all bytes except the last have the highest
/// bit set.
#[derive(Debug, Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn put(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
    }

    fn put_index(&mut self, number: usize) {
        self.put(number as u64);
    }

    fn base64(&self) -> String {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::with_capacity(self.0.len().div_ceil(3) * 4);
        for three in self.0.chunks(3) {
            let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for digit in 0..4 {
                let value = bits >> (18 - 6 * digit) & 63;
                let is_digit = digit <= three.len();
                text.push(if is_digit { char::from(DIGITS[value as usize]) } else { '=' });
            }
        }
        text
    }
}

/// Returns the nodes after the root, in base 64.
pub(super) fn nodes(graph: &Graph) -> String {
    let mut bytes = Bytes::default();
    let mut depth = 0;
    for node in graph.nodes.iter().skip(1) {
        bytes.put(u64::from(depth + 1 - node.depth));
        bytes.put_index(node.function);
        depth = node.depth;
    }
    bytes.base64()
}

/// Returns the rows, in base 64; `usual` holds the most frequent period of each event.
pub(super) fn rows(graph: &Graph, usual: &[u64]) -> String {
    let mut bytes = Bytes::default();
    let same = |a: &super::tree::GraphRow, b: &super::tree::GraphRow| {
        (a.side, a.event, a.thread) == (b.side, b.event, b.thread)
    };
    for group in graph.rows.chunk_by(same) {
        let Some(first) = group.first() else { continue };
        let header = [first.side, first.event, first.thread, group.len()];
        header.into_iter().for_each(|number| bytes.put_index(number));
        let mut node = 0;
        let mut slice = 0;
        for row in group {
            bytes.put_index(row.node - node);
            bytes.put(u64::from(if row.node == node { row.slice - slice } else { row.slice }));
            node = row.node;
            slice = row.slice;
            let usual = usual.get(row.event).copied().unwrap_or(0);
            let is_usual = row.weight.samples.checked_mul(usual) == Some(row.weight.period);
            bytes.put(row.weight.samples << 1 | u64::from(is_usual));
            if !is_usual {
                bytes.put(row.weight.period);
            }
        }
    }
    bytes.base64()
}

/// Returns each event's most frequent period. All samples of a row count with their mean period.
pub(super) fn usual_periods(graph: &Graph) -> Vec<u64> {
    let mut counts: Vec<indexmap::IndexMap<u64, u64>> =
        vec![Default::default(); graph.events.len()];
    for row in &graph.rows {
        let period = row.weight.period.checked_div(row.weight.samples).unwrap_or(0);
        // If periods vary this much, none is frequent enough to matter.
        if counts[row.event].len() < 1 << 10 || counts[row.event].contains_key(&period) {
            *counts[row.event].entry(period).or_default() += row.weight.samples;
        }
    }
    let most = |counts: &indexmap::IndexMap<u64, u64>| {
        counts.iter().max_by_key(|(_, count)| **count).map_or(0, |(period, _)| *period)
    };
    counts.iter().map(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_leb128_in_base_64() {
        let mut bytes = Bytes::default();
        [0, 127, 128, 300].into_iter().for_each(|number| bytes.put(number));
        assert_eq!(bytes.0, [0, 127, 0x80, 1, 0xac, 2]);
        assert_eq!(bytes.base64(), "AH+AAawC");
        assert_eq!(Bytes(vec![1, 2]).base64(), "AQI=");
        assert_eq!(Bytes(vec![1]).base64(), "AQ==");
    }
}
