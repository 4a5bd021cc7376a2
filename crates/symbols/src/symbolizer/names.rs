//! The names of a DSO's symbols, as they are displayed.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::demangle::demangle;
use crate::limits;
use crate::name_source::NameSource;
use crate::once_vec::OnceVec;

/// Displayed names by symbol number.
///
/// Invariant: a name is made once and never moves. After `max_bytes` of names further ones are cut
/// to [`limits::SHORT_NAME_BYTES`]: names of a damaged file may overlap, so that together they are
/// many times larger than the file.
#[derive(Debug)]
pub(super) struct NameCache {
    names: OnceVec<Box<str>>,
    /// Bytes of the names so far, as they are in the file, or a quarter of their bytes as displayed
    /// if that is more.
    bytes: AtomicUsize,
    demangle: bool,
}

impl NameCache {
    pub(super) fn new(demangle: bool) -> Self {
        Self { names: OnceVec::default(), bytes: AtomicUsize::new(0), demangle }
    }

    /// Returns a name that was added before.
    pub(super) fn get(&self, number: u32) -> Option<&str> {
        self.names.get(number).map(|name| &**name)
    }

    /// Adds a name, unless another thread did, and returns it. `raw` is the name in the file.
    pub(super) fn add(
        &self,
        number: u32,
        raw: &[u8],
        origin: NameSource,
        max_bytes: usize,
    ) -> &str {
        self.names.get_or_init(number, || {
            let mut name = if self.bytes.load(Ordering::Relaxed) > max_bytes {
                String::from_utf8_lossy(&raw[..raw.len().min(limits::SHORT_NAME_BYTES)])
                    .into_owned()
            } else if self.demangle {
                demangle(raw)
            } else {
                String::from_utf8_lossy(raw).into_owned()
            };
            name.push_str(if origin == NameSource::Plt { "@plt" } else { "" });
            // A demangled name has up to about four times the bytes of the mangled one.
            let bytes = raw.len().max(name.len() / 4);
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            name.into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_names_after_the_limit() {
        let names = NameCache::new(true);
        let long = vec![b'x'; 1000];
        assert_eq!(names.add(0, &long, NameSource::Symtab, 999).len(), 1000);
        let short = names.add(1, &long, NameSource::Symtab, 999);
        assert_eq!(short.len(), limits::SHORT_NAME_BYTES);
        assert_eq!(names.get(0).map(str::len), Some(1000));
        assert_eq!(names.get(2), None);
    }

    #[test]
    fn makes_each_name_once() {
        let names = NameCache::new(false);
        let first = names.add(7, b"first", NameSource::Symtab, 99);
        let again = names.add(7, b"second", NameSource::Symtab, 99);
        assert_eq!(again, "first");
        assert!(std::ptr::eq(first, again), "the name moved");
        for number in 0..1000 {
            names.add(number, b"x", NameSource::Symtab, 99);
        }
        assert_eq!(first, "first");
    }

    #[test]
    fn demangles_names_and_marks_stubs() {
        let mangled = b"_ZN3foo3barEi";
        assert_eq!(NameCache::new(true).add(0, mangled, NameSource::Plt, 99), "foo::bar@plt");
        assert_eq!(NameCache::new(false).add(0, mangled, NameSource::Symtab, 99), "_ZN3foo3barEi");
    }
}
