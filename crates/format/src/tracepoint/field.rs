//! Fields of a tracepoint, and their location in its bytes.

use crate::bytes::Endian;

/// Limit of fields per tracepoint.
pub(super) const MOST: usize = 1 << 10;

/// Position of a field's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// In the field itself.
    Inline,
    /// Elsewhere in the record. The field holds their offset from the start of the record (16 bits)
    /// and their length (16 bits): `__data_loc`.
    Data,
    /// The same, but the offset counts from the end of the field: `__rel_loc`.
    Relative,
}

/// A field of a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type in C, without `__data_loc`, `__rel_loc` and the array's brackets.
    pub kind: String,
    /// Offset in the record, in bytes.
    pub offset: usize,
    /// Size in bytes, of a dynamic field that of its offset and length.
    pub size: usize,
    /// Whether it is a signed number.
    pub is_signed: bool,
    /// Number of array elements, if stated as a number.
    pub(super) elements: Option<usize>,
    pub(super) is_array: bool,
    pub(super) location: Location,
}

/// Where the bytes of a field are in a record.
#[derive(Clone, Copy, Debug)]
pub struct FieldPlace {
    offset: usize,
    size: usize,
    location: Location,
}

impl FieldPlace {
    /// Returns the field's bytes, as far as the record has them; of a dynamic field (`__data_loc`,
    /// `__rel_loc`), the bytes that it refers to.
    #[must_use]
    pub fn bytes<'r>(&self, raw: &'r [u8], endian: Endian) -> &'r [u8] {
        let (offset, len) = self.range(raw, endian);
        let rest = raw.get(offset..).unwrap_or_default();
        &rest[..len.min(rest.len())]
    }

    /// Returns offset and length of the field's bytes, including those stored elsewhere.
    pub(super) fn range(&self, raw: &[u8], endian: Endian) -> (usize, usize) {
        let base = match self.location {
            Location::Inline => return (self.offset, self.size),
            Location::Data => 0,
            Location::Relative => self.offset.saturating_add(self.size),
        };
        let word = read_number(raw, self.offset, self.size, endian);
        let offset = (word & 0xffff) as usize;
        let len = (word >> 16 & 0xffff) as usize;
        (base.saturating_add(offset), len)
    }
}

impl Field {
    /// Returns where the field's bytes are.
    #[must_use]
    pub fn place(&self) -> FieldPlace {
        FieldPlace { offset: self.offset, size: self.size, location: self.location }
    }

    /// Parses `field:char comm[16]; offset:8; size:16; signed:0;`.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut parts = line.trim_start().strip_prefix("field:")?.split(';');
        let declaration = parts.next()?.trim();
        let mut number =
            |name: &str| parts.next()?.trim().strip_prefix(name)?.parse::<usize>().ok();
        let offset = number("offset:")?;
        let size = number("size:")?;
        let is_signed = number("signed:").is_some_and(|signed| signed != 0);
        let location = match declaration.split_whitespace().next()? {
            "__data_loc" => Location::Data,
            "__rel_loc" => Location::Relative,
            _ => Location::Inline,
        };
        let declaration =
            declaration.trim_start_matches("__data_loc ").trim_start_matches("__rel_loc ");
        let bracket = declaration.find('[');
        let elements =
            bracket.and_then(|at| declaration[at + 1..].split(']').next()?.trim().parse().ok());
        // `char[] name` and `char name[16]`
        let plain = match (bracket, declaration.find(']')) {
            (Some(open), Some(close)) if open < close => {
                format!("{}{}", &declaration[..open], &declaration[close + 1..])
            }
            _ => declaration.to_owned(),
        };
        let plain = plain.trim_end();
        let at = plain.rfind([' ', '*'])? + 1;
        let kind = plain[..at].trim().to_owned();
        let name = plain[at..].to_owned();
        Some(Self {
            name,
            kind,
            offset,
            size,
            is_signed,
            elements,
            is_array: bracket.is_some() || location != Location::Inline,
            location,
        })
    }

    pub(super) fn is_common(&self) -> bool {
        self.name.starts_with("common_")
    }

    pub(super) fn is_pointer(&self) -> bool {
        self.kind.ends_with('*')
    }

    fn is_string(&self) -> bool {
        self.is_array && self.kind.contains("char") && !self.kind.contains("unsigned")
    }

    /// Returns the field as a number.
    pub(super) fn number(&self, raw: &[u8], endian: Endian) -> u64 {
        read_number(raw, self.offset, self.size, endian)
    }

    /// See [`FieldPlace::bytes`].
    pub(super) fn bytes<'r>(&self, raw: &'r [u8], endian: Endian) -> &'r [u8] {
        self.place().bytes(raw, endian)
    }

    /// Returns the size in bytes of an array's element (1 if its type is unknown), or of a field
    /// that isn't an array.
    pub(super) fn element_size(&self) -> usize {
        match self.elements.filter(|elements| *elements > 0) {
            Some(elements) if self.location == Location::Inline => self.size / elements,
            _ if self.is_array => type_size(&self.kind).unwrap_or(1),
            _ => self.size,
        }
    }

    /// Appends ` name=value`, for records without a usable `print fmt`.
    pub(super) fn print(&self, raw: &[u8], endian: Endian, out: &mut Vec<u8>) {
        out.extend_from_slice(format!(" {}=", self.name).as_bytes());
        if self.is_array {
            let bytes = self.bytes(raw, endian);
            let text = crate::bytes::until_nul(bytes);
            if self.is_string()
                && text
                    .iter()
                    .all(|byte| (b' '..=b'~').contains(byte) || byte.is_ascii_whitespace())
            {
                return out.extend_from_slice(text);
            }
            let list: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            return out.extend_from_slice(format!("ARRAY[{}]", list.join(", ")).as_bytes());
        }
        let value = self.number(raw, endian);
        let is_long = self.kind.contains("long");
        let text = match (self.is_pointer(), self.is_signed, self.size) {
            (true, ..) => format!("0x{value:x}"),
            (_, true, 4) => format!("{}", sign_extend(value, 4)),
            (_, true, 2) => format!("{:2}", sign_extend(value, 2)),
            (_, true, 1) => format!("{:1}", sign_extend(value, 1)),
            (_, true, _) => format!("{}", value.cast_signed()),
            (_, false, _) if is_long => format!("0x{value:x}"),
            (_, false, _) => format!("{value}"),
        };
        out.extend_from_slice(text.as_bytes());
    }
}

/// Reads an unsigned number of `size` bytes; 0 if the bytes are missing or more than 8.
pub(super) fn read_number(raw: &[u8], offset: usize, size: usize, endian: Endian) -> u64 {
    let Some(bytes) = offset
        .checked_add(size)
        .and_then(|end| raw.get(offset..end))
        .filter(|bytes| bytes.len() <= 8)
    else {
        return 0;
    };
    let mut word = [0; 8];
    match endian {
        Endian::Little => word[..bytes.len()].copy_from_slice(bytes),
        Endian::Big => word[8 - bytes.len()..].copy_from_slice(bytes),
    }
    endian.u64(word)
}

/// Sign-extends the lowest `size` bytes.
pub(super) fn sign_extend(value: u64, size: u32) -> i64 {
    let unused = 64 - (8 * size).clamp(8, 64);
    (value << unused).cast_signed() >> unused
}

/// Returns the size in bytes of a C type on a 64-bit machine; `None` if the type is unknown.
pub(super) fn type_size(kind: &str) -> Option<usize> {
    let words = kind.split_whitespace().filter(|word| {
        !matches!(*word, "unsigned" | "signed" | "const" | "volatile" | "struct" | "enum")
    });
    let plain = words.collect::<Vec<_>>().join(" ");
    Some(match plain.as_str() {
        _ if kind.ends_with('*') => 8,
        "char" | "u8" | "s8" | "__u8" | "__s8" | "bool" | "uint8_t" | "int8_t" => 1,
        "short" | "short int" | "u16" | "s16" | "__u16" | "__s16" | "__le16" | "__be16"
        | "umode_t" | "uint16_t" | "int16_t" => 2,
        "" | "int" | "u32" | "s32" | "__u32" | "__s32" | "__le32" | "__be32" | "uint32_t"
        | "int32_t" | "gfp_t" | "pid_t" | "dev_t" => 4,
        "long" | "long int" | "long long" | "long long int" | "u64" | "s64" | "__u64" | "__s64"
        | "__le64" | "__be64" | "uint64_t" | "int64_t" | "size_t" | "ssize_t" | "loff_t"
        | "sector_t" | "ino_t" | "dma_addr_t" | "phys_addr_t" | "uintptr_t" => 8,
        _ => return None,
    })
}
