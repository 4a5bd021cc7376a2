//! Builds a target by cargo and finds its executable.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;

/// The target and how it is built, by the names of cargo's options.
#[derive(Debug, clap::Args)]
pub(crate) struct TargetArgs {
    /// Package of the target
    #[arg(short, long, value_name = "SPEC")]
    package: Option<String>,

    #[command(flatten)]
    kind: KindArgs,

    /// Build with the profile dev instead of release
    #[arg(long, conflicts_with = "profile")]
    dev: bool,

    /// Build with the profile release, which is the default
    #[arg(long, conflicts_with_all = ["dev", "profile"])]
    release: bool,

    /// Build with this profile
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,

    #[command(flatten)]
    features: FeatureArgs,

    /// Build for this target triple
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,

    /// Path of Cargo.toml
    #[arg(long, value_name = "PATH")]
    manifest_path: Option<PathBuf>,
}

/// The kind and name of a target.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct KindArgs {
    /// Program
    #[arg(short, long, value_name = "NAME")]
    bin: Option<String>,

    /// Example
    #[arg(long, value_name = "NAME")]
    example: Option<String>,

    /// Integration test
    #[arg(long, value_name = "NAME")]
    test: Option<String>,

    /// The library's own tests
    #[arg(long)]
    unit_test: bool,

    /// Benchmark
    #[arg(long, value_name = "NAME")]
    bench: Option<String>,
}

/// Features, as for `cargo build`.
#[derive(Debug, clap::Args)]
struct FeatureArgs {
    /// Features to activate, separated by commas
    #[arg(short, long)]
    features: Option<String>,

    /// Activate all features
    #[arg(long)]
    all_features: bool,

    /// Leave the default features out
    #[arg(long)]
    no_default_features: bool,
}

/// What cargo built.
#[derive(Debug)]
pub(crate) struct Executable {
    pub(crate) path: PathBuf,
    pub(crate) is_bench: bool,
    /// Where cargo runs it, if that isn't the current folder: tests and benchmarks run in their
    /// package's folder.
    pub(crate) folder: Option<PathBuf>,
}

impl TargetArgs {
    /// Builds the target, and returns its executable.
    ///
    /// # Errors
    /// Fails if cargo does, or if the options leave several executables or none.
    pub(crate) fn build(&self) -> anyhow::Result<Executable> {
        let mut build = cargo();
        // `cargo build` has no tests of a library.
        build.args(if self.kind.unit_test {
            &["test", "--no-run", "--lib"][..]
        } else {
            &["build"]
        });
        build.arg("--message-format=json-render-diagnostics");
        self.add_target(&mut build);
        self.add_profile(&mut build);
        let output = build.stderr(Stdio::inherit()).output().context("cannot run cargo build")?;
        if !output.status.success() {
            bail!("cargo build failed");
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let artifacts = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        // A package's programs are built beside its integration tests, too.
        let is_wanted = |artifact: &Value| {
            let kinds = artifact["target"]["kind"].as_array();
            let kind = kinds.and_then(|kinds| kinds.first()).and_then(Value::as_str);
            artifact["executable"].is_string() && self.kind.is_built_as(kind.unwrap_or_default())
        };
        let mut built: Vec<Value> = artifacts.filter(is_wanted).collect();
        if built.len() > 1 {
            let default = self.default_run()?;
            built
                .retain(|artifact| default.iter().any(|name| artifact["target"]["name"] == **name));
        }
        let [artifact] = &built[..] else {
            bail!("name one target, for example with --bin: `cargo build --bin` lists them");
        };
        let path = artifact["executable"].as_str().unwrap_or_default();
        let manifest = Path::new(artifact["manifest_path"].as_str().unwrap_or_default());
        let runs_in_package = self.kind.is_test() || self.kind.bench.is_some();
        Ok(Executable {
            path: path.into(),
            is_bench: self.kind.bench.is_some(),
            folder: manifest.parent().filter(|_| runs_in_package).map(Path::to_owned),
        })
    }

    /// The names in `default-run` of the packages.
    fn default_run(&self) -> anyhow::Result<Vec<String>> {
        let mut metadata = cargo();
        metadata.args(["metadata", "--no-deps", "--format-version", "1"]);
        self.add_manifest(&mut metadata);
        let output = metadata.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
        let document: Value = serde_json::from_slice(&output.stdout)
            .context("cannot read the output of cargo metadata")?;
        let packages = document["packages"].as_array().into_iter().flatten();
        let names = packages.filter_map(|package| package["default_run"].as_str());
        Ok(names.map(ToOwned::to_owned).collect())
    }

    fn add_manifest(&self, cargo: &mut Command) {
        if let Some(path) = &self.manifest_path {
            cargo.arg("--manifest-path").arg(path);
        }
    }

    fn add_target(&self, cargo: &mut Command) {
        self.add_manifest(cargo);
        let named = [
            ("--package", &self.package),
            ("--bin", &self.kind.bin),
            ("--example", &self.kind.example),
            ("--test", &self.kind.test),
            ("--bench", &self.kind.bench),
            ("--features", &self.features.features),
            ("--target", &self.target),
        ];
        for (option, value) in named {
            if let Some(value) = value {
                cargo.args([option, value]);
            }
        }
        if self.kind.is_default() {
            cargo.arg("--bins");
        }
        if self.features.all_features {
            cargo.arg("--all-features");
        }
        if self.features.no_default_features {
            cargo.arg("--no-default-features");
        }
    }

    fn profile(&self) -> &str {
        match &self.profile {
            Some(name) => name,
            None if self.dev => "dev",
            None => "release",
        }
    }

    /// Adds the profile, with debug info and symbols. `dev` has both.
    fn add_profile(&self, cargo: &mut Command) {
        let profile = self.profile();
        cargo.args(["--profile", profile]);
        let variable = profile.to_uppercase().replace('-', "_");
        for (setting, value) in [("DEBUG", "line-tables-only"), ("STRIP", "none")] {
            let name = format!("CARGO_PROFILE_{variable}_{setting}");
            if profile != "dev" && std::env::var_os(&name).is_none() {
                cargo.env(name, value);
            }
        }
    }
}

impl KindArgs {
    fn is_test(&self) -> bool {
        self.test.is_some() || self.unit_test
    }

    /// Whether no target is named.
    fn is_default(&self) -> bool {
        let named = [&self.bin, &self.example, &self.test, &self.bench];
        !self.unit_test && named.iter().all(|name| name.is_none())
    }

    /// Whether cargo calls the named target's kind so.
    fn is_built_as(&self, kind: &str) -> bool {
        match kind {
            "bin" => self.bin.is_some() || self.is_default(),
            "example" => self.example.is_some(),
            "test" => self.test.is_some(),
            "bench" => self.bench.is_some(),
            _ => self.unit_test,
        }
    }
}

/// The cargo that runs this program.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}
