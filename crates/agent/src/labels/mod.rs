//! Labels of processes: what a query selects and sums up by.
//!
//! ```text
//! sample: pid, thread's name, cgroup ----> cgroup_path: container id, pod's uid, unit
//!                                              \--> container: names, image  (files of runtimes)
//! /proc/PID/environ, cmdline  (if asked for) ------> version, ...
//! ```
//! Everything comes from processes and containers, and is untrusted text.

mod cgroup_path;
mod container;
mod files;
mod local;
mod thread_name;

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use tare_kernel::host::Host;

pub use self::cgroup_path::{CgroupOwner, ContainerName};
pub use self::container::{ContainerDetails, ContainerFiles, image_tag, pod_owner};
pub use self::thread_name::fold;

/// Limit of cgroups whose labels are known. Above it, all are read again when they next occur.
const CGROUPS: usize = 4096;

/// Limit of processes whose labels are known.
const PROCESSES: usize = 1 << 14;

/// Limit of the part of a process's environment or command line that is read, in bytes.
const PROCESS_BYTES: u64 = 1 << 17;

/// Which labels are read from processes themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelOptions {
    /// Variables of the environment that become labels.
    pub environment: Vec<EnvironmentLabel>,
    /// Whether the command line becomes a label. It may hold secrets.
    pub command_line: bool,
}

/// A label with the value of an environment variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentLabel {
    /// The label: `service`, `version`, or a name of its own.
    pub label: String,
    /// The variable.
    pub variable: String,
}

impl EnvironmentLabel {
    /// Reads `VARIABLE` or `LABEL=VARIABLE`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (label, variable) = text.split_once('=').unwrap_or((text, text));
        let is_name = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
        };
        (is_name(label) && is_name(variable))
            .then(|| Self { label: label.to_owned(), variable: variable.to_owned() })
    }
}

/// Labels of a process's samples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Labels {
    /// What the process belongs to: a variable's value, else the pod's owner, the compose service,
    /// the container, the unit without its suffix, or the process's name.
    pub service: String,
    /// A variable's value, else the image's tag.
    pub version: Option<String>,
    /// The process's name.
    pub process: String,
    /// The container's id, or the name of a container without one.
    pub container: Option<String>,
    /// The systemd unit.
    pub unit: Option<String>,
    /// The Kubernetes namespace.
    pub namespace: Option<String>,
    /// The Kubernetes pod.
    pub pod: Option<String>,
    /// The deployment, set or job that owns the pod.
    pub owner: Option<String>,
    /// The container's image.
    pub image: Option<String>,
    /// Further labels, by name: `cgroup`, `runtime`, `container_name`, `pod_uid`,
    /// `program`, `program_build_id`, `command_line`, variables.
    pub further: Vec<(String, String)>,
}

/// A process as its samples describe it.
#[derive(Clone, Copy, Debug)]
pub struct SampledProcess<'a> {
    /// Its id, in this pid namespace.
    pub pid: i32,
    /// Changes when the process executes another program, or another process has this id.
    pub version: u64,
    /// Its name.
    pub name: &'a str,
    /// The path of its cgroup; `None` if the kernel doesn't add it to samples.
    pub cgroup: Option<&'a str>,
}

/// The program that a process runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Its path, as the process sees it.
    pub path: String,
    /// Its build id in hexadecimal.
    pub build_id: Option<String>,
}

/// Finds labels, and remembers them for as long as processes and containers are the same.
#[derive(Debug)]
pub struct Labeler {
    host: Host,
    options: LabelOptions,
    files: ContainerFiles,
    cgroups: HashMap<String, Arc<CgroupLabels>>,
    processes: HashMap<i32, ProcessLabels>,
}

/// Labels that all processes of a cgroup have.
#[derive(Debug)]
struct CgroupLabels {
    /// When they were made: see `LocalContainers::version`.
    version: u64,
    path: String,
    owner: CgroupOwner,
    details: ContainerDetails,
}

#[derive(Debug)]
struct ProcessLabels {
    version: u64,
    cgroup: Option<String>,
    /// See `LocalContainers::version`.
    containers: u64,
    labels: Arc<Labels>,
}

impl Labeler {
    /// Makes a labeler that reads the files of a machine.
    #[must_use]
    pub fn new(host: Host, options: LabelOptions) -> Self {
        Self {
            files: ContainerFiles::new(host.clone()),
            host,
            options,
            cgroups: HashMap::new(),
            processes: HashMap::new(),
        }
    }

    /// Returns a process's labels. `program` finds its program if they aren't known.
    pub fn labels(
        &mut self,
        process: SampledProcess<'_>,
        program: impl FnOnce() -> Option<Program>,
    ) -> Arc<Labels> {
        if let Some(known) = self.processes.get(&process.pid)
            && known.version == process.version
            && (process.cgroup.is_none() || known.cgroup.as_deref() == process.cgroup)
            && (known.labels.has_place() || known.containers == self.files.local().version())
        {
            return Arc::clone(&known.labels);
        }
        let path = process.cgroup.map(str::to_owned).or_else(|| self.read_cgroup(process.pid));
        let of_cgroup = path.map(|path| self.cgroup_labels(path));
        let mut labels = self.make_labels(process, of_cgroup.as_deref());
        if let Some(Program { path, build_id }) = program() {
            labels.further.push(("program".to_owned(), path));
            labels.further.extend(build_id.map(|id| ("program_build_id".to_owned(), id)));
        }
        let labels = Arc::new(labels);
        if self.processes.len() >= PROCESSES {
            self.processes.clear();
        }
        let known = ProcessLabels {
            version: process.version,
            cgroup: process.cgroup.map(str::to_owned),
            containers: self.files.local().version(),
            labels: Arc::clone(&labels),
        };
        self.processes.insert(process.pid, known);
        labels
    }

    /// Forgets processes and cgroups, so that those that ended take no memory and containers that
    /// changed are read again.
    pub fn forget(&mut self) {
        self.processes.clear();
        self.cgroups.clear();
        self.files.local().forget();
    }

    /// Starts a thread that looks for containers of runc and crun.
    ///
    /// # Errors
    /// Fails if there can't be another thread.
    pub fn watch_containers(&self) -> std::io::Result<()> {
        self.files.local().watch()
    }

    /// Reads the path of a running process's cgroup: in version 2, else in the hierarchy of
    /// `perf_event`, else in systemd's.
    fn read_cgroup(&self, pid: i32) -> Option<String> {
        let text = self.host.read(format!("/proc/{pid}/cgroup")).ok()?;
        let lines = || {
            text.lines().filter_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                Some((parts.next()?, parts.next()?))
            })
        };
        let of = |wanted: &str| {
            let mut lines = lines();
            lines.find(|(names, path)| names.split(',').any(|name| name == wanted) && *path != "/")
        };
        let found = of("").or_else(|| of("perf_event")).or_else(|| of("name=systemd"));
        found.or_else(|| lines().next()).map(|(_, path)| path.to_owned())
    }

    fn cgroup_labels(&mut self, path: String) -> Arc<CgroupLabels> {
        if let Some(known) = self.cgroups.get(&path)
            && (known.owner.container.is_some() || known.version == self.files.local().version())
        {
            return Arc::clone(known);
        }
        let mut owner = CgroupOwner::from_path(&path);
        if owner.container.is_none() {
            owner.container = self.find_local_container(&path);
        }
        if owner.container.is_some() {
            owner.unit = None;
        }
        let container = owner.container.as_ref();
        let details = container
            .map(|container| self.files.details(container, owner.pod_uid.as_deref()))
            .unwrap_or_default();
        let version = self.files.local().version();
        let labels = Arc::new(CgroupLabels { version, path: path.clone(), owner, details });
        if self.cgroups.len() >= CGROUPS {
            self.cgroups.clear();
        }
        self.cgroups.insert(path, Arc::clone(&labels));
        labels
    }

    /// Finds the container of runc or crun of a cgroup that is new.
    fn find_local_container(&self, path: &str) -> Option<ContainerName> {
        let local = self.files.local();
        if local.find(path).is_none() && path != "/" {
            local.refresh();
        }
        local.find(path)
    }

    fn make_labels(&self, process: SampledProcess<'_>, cgroup: Option<&CgroupLabels>) -> Labels {
        let mut labels = Labels { process: process.name.to_owned(), ..Labels::default() };
        if let Some(cgroup) = cgroup {
            labels.add_cgroup(cgroup);
        }
        if self.options.command_line
            && let Some(line) = self.read_process(process.pid, "cmdline")
        {
            let words: Vec<_> = line.split('\0').filter(|word| !word.is_empty()).collect();
            labels.further.push(("command_line".to_owned(), words.join(" ")));
        }
        let mut service = None;
        if !self.options.environment.is_empty()
            && let Some(environment) = self.read_process(process.pid, "environ")
        {
            for EnvironmentLabel { label, variable } in &self.options.environment {
                let Some(value) = variable_value(&environment, variable) else { continue };
                match label.as_str() {
                    "service" => service = Some(value.to_owned()),
                    "version" => labels.version = Some(value.to_owned()),
                    _ => labels.further.push((label.clone(), value.to_owned())),
                }
            }
        }
        labels.service = service.unwrap_or_else(|| labels.default_service(cgroup));
        labels
    }

    /// Reads a file of a running process as text.
    fn read_process(&self, pid: i32, name: &str) -> Option<String> {
        let mut bytes = Vec::new();
        let file = File::open(self.host.path(&format!("/proc/{pid}/{name}"))).ok()?;
        file.take(PROCESS_BYTES).read_to_end(&mut bytes).ok()?;
        (!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Labels {
    /// Whether it is known where the process runs. A container may be found later.
    fn has_place(&self) -> bool {
        self.container.is_some() || self.unit.is_some()
    }

    fn add_cgroup(&mut self, cgroup: &CgroupLabels) {
        let CgroupLabels { path, owner, details, .. } = cgroup;
        self.unit.clone_from(&owner.unit);
        self.namespace.clone_from(&details.namespace);
        self.pod.clone_from(&details.pod);
        self.owner = details.pod.as_deref().map(|pod| pod_owner(pod).to_owned());
        self.image.clone_from(&details.image);
        self.version = details.image.as_deref().and_then(image_tag).map(str::to_owned);
        let mut further = |name: &str, value: Option<&str>| {
            self.further.extend(value.map(|value| (name.to_owned(), value.to_owned())));
        };
        further("cgroup", Some(path.as_str()).filter(|path| *path != "/"));
        if let Some(ContainerName { id, runtime }) = &owner.container {
            further("container_name", details.name.as_deref());
            further("runtime", *runtime);
            self.container = Some(id.clone());
        }
        if self.pod.is_none() {
            further("pod_uid", owner.pod_uid.as_deref());
        }
    }

    fn default_service(&self, cgroup: Option<&CgroupLabels>) -> String {
        let details = cgroup.map(|cgroup| &cgroup.details);
        let compose = details.and_then(|details| details.compose_service.clone());
        let name = details.and_then(|details| details.name.clone());
        let unit = || {
            let (name, _) = self.unit.as_deref()?.rsplit_once('.')?;
            // Instances of a template are one service; a session's name is a number.
            let name = name.split_once('@').map_or(name, |(template, _)| template);
            (!name.starts_with("session-") && !name.is_empty()).then(|| name.to_owned())
        };
        let owner = self.owner.clone().or(compose).or(name).or_else(|| self.container.clone());
        owner.or_else(unit).unwrap_or_else(|| self.process.clone())
    }
}

fn variable_value<'a>(environment: &'a str, variable: &str) -> Option<&'a str> {
    let lines = environment.split('\0');
    lines
        .filter_map(|line| line.split_once('='))
        .find(|(name, _)| *name == variable)
        .map(|(_, v)| v)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ID: &str = "4f2c9c0f7a4c6cb1d5f0b7a1d3e8c2a94f2c9c0f7a4c6cb1d5f0b7a1d3e8c2a9";

    fn process<'a>(pid: i32, name: &'a str, cgroup: Option<&'a str>) -> SampledProcess<'a> {
        SampledProcess { pid, version: 1, name, cgroup }
    }

    fn labeler(root: &std::path::Path, environment: &[&str]) -> Labeler {
        let environment = environment.iter().filter_map(|text| EnvironmentLabel::parse(text));
        let options = LabelOptions { environment: environment.collect(), command_line: true };
        Labeler::new(Host::at(root), options)
    }

    #[test]
    fn a_service_is_the_owner_the_container_the_unit_or_the_process() {
        let root = tempfile::tempdir().unwrap();
        let mut labeler = labeler(root.path(), &[]);
        let mut service = |cgroup: Option<&str>| {
            labeler.forget();
            labeler.labels(process(7, "main", cgroup), || None).service.clone()
        };
        assert_eq!(service(None), "main");
        assert_eq!(service(Some("/system.slice/nginx.service")), "nginx");
        assert_eq!(service(Some("/system.slice/system-getty.slice/getty@tty1.service")), "getty");
        assert_eq!(service(Some("/user.slice/user-0.slice/session-3.scope")), "main");
        assert_eq!(service(Some(&format!("/docker/{ID}"))), ID);
        let uid = "0a1b2c3d-1111-2222-3333-444455556666";
        let logs = root.path().join(format!("var/log/pods/shop_api-7d4b9c6f5d-x2x9z_{uid}"));
        fs::create_dir_all(logs).unwrap();
        assert_eq!(service(Some(&format!("/kubepods/pod{uid}/{ID}"))), "api");
    }

    #[test]
    fn variables_and_command_lines_are_read_if_asked_for() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("proc/7");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("environ"), "A=1\0APP_VERSION=2.1=x\0NAME=shop\0").unwrap();
        fs::write(folder.join("cmdline"), "main\0-v\0").unwrap();
        fs::write(folder.join("cgroup"), "1:name=systemd:/\n0::/system.slice/a.service\n").unwrap();
        let mut labeler =
            labeler(root.path(), &["version=APP_VERSION", "service=NAME", "A", "MISSING"]);
        let labels = labeler.labels(process(7, "main", None), || None);
        assert_eq!(labels.version.as_deref(), Some("2.1=x"));
        assert_eq!(labels.service, "shop");
        assert_eq!(labels.unit.as_deref(), Some("a.service"));
        let further = |name: &str| {
            labels.further.iter().find(|(label, _)| label == name).map(|(_, value)| value.as_str())
        };
        assert_eq!(further("A"), Some("1"));
        assert_eq!(further("MISSING"), None);
        assert_eq!(further("command_line"), Some("main -v"));
    }

    #[test]
    fn labels_change_with_the_program_and_the_cgroup() {
        let root = tempfile::tempdir().unwrap();
        let mut labeler = labeler(root.path(), &[]);
        let first = labeler.labels(process(7, "sh", Some("/a.service")), || None);
        let again = labeler.labels(process(7, "sh", Some("/a.service")), || None);
        assert!(Arc::ptr_eq(&first, &again));
        let executed = SampledProcess { version: 2, ..process(7, "make", Some("/a.service")) };
        assert_eq!(labeler.labels(executed, || None).process, "make");
        let moved = SampledProcess { version: 2, ..process(7, "make", Some("/b.service")) };
        assert_eq!(labeler.labels(moved, || None).unit.as_deref(), Some("b.service"));
    }

    #[test]
    fn a_container_that_is_found_later_labels_known_processes() {
        let root = tempfile::tempdir().unwrap();
        let mut labeler = labeler(root.path(), &[]);
        let container =
            |labeler: &mut Labeler| labeler.labels(process(7, "main", Some("/made/up")), || None);
        assert_eq!(container(&mut labeler).container, None);
        let state = root.path().join("run/crun/web");
        fs::create_dir_all(&state).unwrap();
        fs::write(state.join("status"), r#"{"cgroup-path":"/made/up"}"#).unwrap();
        labeler.files.local().refresh();
        assert_eq!(container(&mut labeler).container.as_deref(), Some("web"));
    }

    #[test]
    fn environment_labels_have_plain_names() {
        let label = EnvironmentLabel::parse("version=APP_VERSION").unwrap();
        assert_eq!((label.label.as_str(), label.variable.as_str()), ("version", "APP_VERSION"));
        for refused in ["", "=", "a b", "a=b=c", "x/y", "version="] {
            assert_eq!(EnvironmentLabel::parse(refused), None, "{refused}");
        }
    }
}
