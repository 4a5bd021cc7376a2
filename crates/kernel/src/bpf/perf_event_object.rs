//! A loader for objects with a program that runs before the samples of perf events.
//!
//! aya's own loader parses all of the kernel's BTF, which takes tens of milliseconds and of MiB: as
//! much as the rest of a short recording. This one uses aya's parser of objects with the few types
//! that the object names. It needs Linux 5.17, for `bpf_loop`.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use aya::maps::MapData;
use aya::{Btf, EbpfError, Endianness};
use aya_obj::btf::BtfFeatures;
use aya_obj::{EbpfSectionKind, Function, Object};
use rustix::io::Errno;

use super::btf_subset::subset_for;
use super::error::BpfError;
use super::object::kernel_types;
use super::syscall::{self, ProgramParts};

/// The kernel's support of a program's BTF: Linux 5.17 has all but 64-bit enumerations, which the
/// objects don't use.
const FEATURES: BtfFeatures = BtfFeatures::new(true, true, true, true, true, true, true, false);

/// A program in the kernel, with its maps. Dropping it unloads the program once no event runs it.
#[derive(Debug)]
pub(super) struct PerfEventObject {
    program: OwnedFd,
    maps: HashMap<String, MapData>,
}

fn object_error(error: impl Into<EbpfError>) -> BpfError {
    BpfError::Object(Box::new(error.into()))
}

impl PerfEventObject {
    /// Loads the program of this name. Sets constants of the source by name, and the sizes of maps:
    /// entries, or bytes of a ring buffer.
    ///
    /// # Errors
    /// See [`BpfError`].
    pub(super) fn load(
        object: &[u8],
        name: &str,
        constants: &[(&'static str, u32)],
        map_sizes: &[(&str, u32)],
    ) -> Result<Self, BpfError> {
        let types = kernel_types(|bytes| {
            let subset = subset_for(object, bytes).unwrap_or_default();
            Btf::parse(&subset, Endianness::default())
        });
        let types = types.map_err(BpfError::NoBtf)?;
        let mut object = Object::parse(object).map_err(object_error)?;
        let constants: Vec<_> =
            constants.iter().map(|(name, value)| (*name, value.to_ne_bytes())).collect();
        let globals = constants.iter().map(|(name, bytes)| (*name, (&bytes[..], true)));
        object.patch_map_data(globals.collect()).map_err(object_error)?;
        let own_types = object.fixup_and_sanitize_btf(&FEATURES).map_err(object_error)?;
        let own_types =
            own_types.map(|types| syscall::load_types(&types.to_bytes())).transpose()?;
        object.relocate_btf(&types).map_err(object_error)?;
        let maps = create_maps(&mut object, map_sizes, own_types.as_ref().map(AsFd::as_fd))?;
        let sections: HashSet<usize> =
            object.functions.keys().map(|(section, _)| *section).collect();
        let relocated = maps.iter().map(|(name, map)| (&**name, map.file(), &map.described));
        object.relocate_maps(relocated, &sections).map_err(object_error)?;
        object.relocate_calls(&sections).map_err(object_error)?;
        let program = object.programs.get(name).ok_or(Errno::NOENT)?;
        let function = object.functions.get(&program.function_key()).ok_or(Errno::NOENT)?;
        let program = load_program(name, function, &program.license, own_types.as_ref())?;
        let maps = maps.into_iter().map(|(name, map)| (name, map.data)).collect();
        Ok(Self { program, maps })
    }

    /// Returns the descriptor of the program.
    pub(super) fn program(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }

    /// Takes a map out.
    ///
    /// # Errors
    /// Fails if the object has no such map.
    pub(super) fn take_map(&mut self, name: &str) -> Result<MapData, BpfError> {
        Ok(self.maps.remove(name).ok_or(Errno::NOENT)?)
    }
}

/// A map, and how the object describes it.
struct CreatedMap {
    described: aya_obj::Map,
    data: MapData,
}

impl CreatedMap {
    fn file(&self) -> i32 {
        self.data.fd().as_fd().as_raw_fd()
    }
}

fn create_maps(
    object: &mut Object,
    sizes: &[(&str, u32)],
    types: Option<BorrowedFd<'_>>,
) -> Result<HashMap<String, CreatedMap>, BpfError> {
    let mut maps = HashMap::new();
    for (name, mut described) in object.maps.drain() {
        if let Some((_, size)) = sizes.iter().find(|(of, _)| *of == name) {
            described.set_max_entries(*size);
        }
        let data = MapData::create(described.clone(), &name, types)?;
        if described.section_kind() == EbpfSectionKind::Rodata {
            syscall::set_first(data.fd().as_fd(), described.data())?;
            syscall::freeze(data.fd().as_fd())?;
        }
        maps.insert(name, CreatedMap { described, data });
    }
    Ok(maps)
}

fn load_program(
    name: &str,
    function: &Function,
    license: &std::ffi::CStr,
    types: Option<&OwnedFd>,
) -> Result<OwnedFd, BpfError> {
    let parts = ProgramParts {
        name,
        instructions: &function.instructions,
        license,
        types: types.map(AsFd::as_fd),
        functions: &function.func_info.func_info,
    };
    Ok(syscall::load_perf_event(&parts)?)
}
