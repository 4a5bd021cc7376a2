//! Which memory of a call's arguments is copied, and when.

/// The part of an argument's memory that the programs copy. Sizes are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyRule {
    /// Nothing.
    #[default]
    Nothing,
    /// A string up to and including its NUL byte, at most this long.
    Text(u16),
    /// This many bytes.
    Bytes(u16),
    /// Items of `size` bytes, as many as argument `count` holds, at most `most` bytes.
    Items {
        /// The argument that holds their number.
        count: u8,
        /// Size of an item.
        size: u16,
        /// Most bytes of all items.
        most: u16,
    },
    /// Items of `size` bytes, as many as the call returned, at most `most` bytes.
    Returned {
        /// Size of an item.
        size: u16,
        /// Most bytes of all items.
        most: u16,
    },
    /// A vector of at most 33 strings, each at most this long.
    Texts(u16),
    /// The number of strings in a vector.
    TextCount,
    /// `struct iovec`s, as many as argument `count` holds but at most 16, and up to `most` bytes at
    /// the address in each.
    Vectors {
        /// The argument that holds their number.
        count: u8,
        /// Most bytes copied for each vector.
        most: u16,
    },
    /// `struct msghdr`, its address and control data, and up to this many bytes of each of its
    /// first 16 vectors.
    Message(u16),
    /// As many bytes as the 32-bit number holds that argument `count` points to, at most `most`.
    Counted {
        /// The argument that points to the number.
        count: u8,
        /// Most bytes.
        most: u16,
    },
    /// The descriptor's file ([`FileDescription`](super::FileDescription)).
    Descriptor,
    /// The two descriptors that the argument points to, and their files.
    Descriptors,
}

/// When memory is copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyTime {
    /// At the beginning of the call.
    pub enter: bool,
    /// After success.
    pub success: bool,
    /// After failure.
    pub failure: bool,
}

/// The memory that the programs copy of a call's arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallPlan {
    /// Rule and time for each argument.
    pub arguments: [(CopyRule, CopyTime); 6],
    /// Offset of the first argument from the stack pointer (`rt_sigreturn`); 0: it is in a
    /// register.
    pub above_stack: u32,
    /// Whether the call returns a descriptor whose file is recorded.
    pub returns_descriptor: bool,
}

impl CallPlan {
    /// Whether files of descriptors are recorded.
    pub(super) fn records_descriptors(&self) -> bool {
        let is_descriptor = |(copied, _): &(CopyRule, CopyTime)| {
            matches!(copied, CopyRule::Descriptor | CopyRule::Descriptors)
        };
        self.returns_descriptor || self.arguments.iter().any(is_descriptor)
    }
}
