//! The build ids of a recording, which identify the recorded build of each DSO.

use std::collections::HashMap;

use tare_format::file::Description;
use tare_format::file::features::{ARCH, OSRELEASE};
use tare_format::record::{BuildId as ListedBuildId, FileId};
use tare_symbols::{BuildId, RecordedKernel, limits};

/// Build ids by recorded path or name.
#[derive(Debug, Default)]
pub(crate) struct BuildIds {
    by_name: HashMap<Vec<u8>, BuildId>,
}

impl BuildIds {
    /// Adds a listed build id, which replaces an earlier one of the same name; ignores it if
    /// [`limits::DSOS`] are known. Returns the id if it is the kernel's, listed by its name or by
    /// the path of its image.
    pub(crate) fn add(&mut self, listed: &ListedBuildId<'_>) -> Option<BuildId> {
        let id = BuildId::new(listed.build_id)?;
        let path = listed.path;
        if self.by_name.len() < limits::DSOS {
            self.by_name.insert(path.to_vec(), id);
        }
        let is_image = listed.is_kernel && !is_module(path) && path.starts_with(b"/");
        (path == b"[kernel.kallsyms]" || is_image).then_some(id)
    }

    /// Returns the build id of a DSO: that in its mapping's record, else the listed one.
    pub(crate) fn get(&self, name: &[u8], recorded: &FileId<'_>) -> Option<BuildId> {
        let own = if let FileId::BuildId(id) = recorded { BuildId::new(id) } else { None };
        own.or_else(|| self.by_name.get(name).copied())
    }
}

/// Reads the recorded kernel from a description, and adds the listed build ids to `ids`.
pub(crate) fn recorded_kernel(description: &Description, ids: &mut BuildIds) -> RecordedKernel {
    let features = description.features();
    let text = |feature| features.text(feature).ok().map(<[u8]>::to_vec);
    let mut build_id = None;
    for listed in features.build_ids().into_iter().flatten() {
        build_id = ids.add(&listed).or(build_id);
    }
    let release = text(OSRELEASE);
    let arch = text(ARCH);
    RecordedKernel { release, arch, build_id, reference: None }
}

/// Whether a path of kernel code is a module's: `[name]`, or a path that contains `.ko`, since
/// modules may be compressed.
fn is_module(path: &[u8]) -> bool {
    path.starts_with(b"[") && !path.starts_with(b"[kernel.kallsyms]")
        || path.windows(3).any(|part| part == b".ko")
}
