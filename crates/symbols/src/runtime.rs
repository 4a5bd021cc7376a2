//! Runtimes with a just-in-time compiler, and the options that make them write symbols.

use std::fmt;

/// A runtime, recognized by the files that its processes map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Runtime {
    /// Chromium and its derivatives.
    Chromium,
    /// Deno.
    Deno,
    /// .NET.
    Dotnet,
    /// Erlang and Elixir.
    Erlang,
    /// A JVM.
    Java,
    /// Julia.
    Julia,
    /// Node.js.
    Node,
    /// PHP.
    Php,
    /// CPython.
    Python,
    /// Ruby.
    Ruby,
    /// Wasmtime, also as a library.
    Wasmtime,
}

/// Names of libraries and programs; a version may follow.
const FILES: [(&[u8], Runtime); 18] = [
    (b"libjvm.so", Runtime::Java),
    (b"libcoreclr.so", Runtime::Dotnet),
    (b"libjulia", Runtime::Julia),
    (b"libnode.so", Runtime::Node),
    (b"libpython3", Runtime::Python),
    (b"libruby", Runtime::Ruby),
    (b"libwasmtime", Runtime::Wasmtime),
    (b"_libwasmtime", Runtime::Wasmtime),
    (b"beam.smp", Runtime::Erlang),
    (b"chrome", Runtime::Chromium),
    (b"chromium", Runtime::Chromium),
    (b"deno", Runtime::Deno),
    (b"electron", Runtime::Chromium),
    (b"node", Runtime::Node),
    (b"php", Runtime::Php),
    (b"python3", Runtime::Python),
    (b"ruby", Runtime::Ruby),
    (b"wasmtime", Runtime::Wasmtime),
];

impl Runtime {
    /// Returns the runtime that a file belongs to, by its path.
    #[must_use]
    pub fn from_path(path: &[u8]) -> Option<Self> {
        let base = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let is_version = |rest: &[u8]| rest.first().is_none_or(|byte| !byte.is_ascii_alphabetic());
        let is_library = |name: &[u8]| name.starts_with(b"lib") || name.starts_with(b"_lib");
        let is_it = |name: &[u8]| {
            base.strip_prefix(name).is_some_and(|rest| is_version(rest) || is_library(name))
        };
        FILES.iter().find(|(name, _)| is_it(name)).map(|(_, runtime)| *runtime)
    }

    /// Name of the runtime.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chromium => "Chromium",
            Self::Deno => "Deno",
            Self::Dotnet => ".NET",
            Self::Erlang => "Erlang",
            Self::Java => "the JVM",
            Self::Julia => "Julia",
            Self::Node => "Node.js",
            Self::Php => "PHP",
            Self::Python => "Python",
            Self::Ruby => "Ruby",
            Self::Wasmtime => "Wasmtime",
        }
    }

    /// Command or option that makes the runtime write symbols; docs/jit.md has more.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Chromium => "chromium --no-sandbox --js-flags=--perf-basic-prof",
            Self::Deno => "deno run --v8-flags=--perf-basic-prof",
            Self::Dotnet => "DOTNET_PerfMapEnabled=1 dotnet",
            Self::Erlang => "erl +JPperf true",
            Self::Java => "java -XX:+PreserveFramePointer, then jcmd PID Compiler.perfmap",
            Self::Julia => "ENABLE_JITPROFILING=1 julia",
            Self::Node => "node --perf-basic-prof",
            Self::Php => "php -d opcache.jit_debug=16",
            Self::Python => "python3 -X perf",
            Self::Ruby => "ruby --yjit --yjit-perf",
            Self::Wasmtime => "wasmtime --profile=jitdump",
        }
    }
}

/// Message of [`crate::Unresolved::NoPerfMap`].
impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} wrote no perf map: {}", self.name(), self.remedy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_runtimes_by_their_files() {
        let cases: [(&[u8], Option<Runtime>); 10] = [
            (b"/usr/bin/node", Some(Runtime::Node)),
            (b"/usr/lib/libnode.so.115", Some(Runtime::Node)),
            (b"/usr/bin/nodered", None),
            (b"/usr/lib/jvm/lib/server/libjvm.so", Some(Runtime::Java)),
            (b"/usr/bin/python3.13", Some(Runtime::Python)),
            (b"/usr/lib/libpython3.13.so.1.0", Some(Runtime::Python)),
            (b"/opt/wasmtime/linux-x86_64/_libwasmtime.so", Some(Runtime::Wasmtime)),
            (b"/usr/lib/libjulia-internal.so.1", Some(Runtime::Julia)),
            (b"/usr/lib/libc.so.6", None),
            (b"", None),
        ];
        for (path, runtime) in cases {
            assert_eq!(Runtime::from_path(path), runtime, "{}", String::from_utf8_lossy(path));
        }
    }
}
