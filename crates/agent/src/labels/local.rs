//! Containers that runc or crun started by themselves. Their cgroups may have any name, and the
//! files that say which container a cgroup is disappear with the container. So a thread lists them
//! when they begin, whatever else the agent does.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use serde_json::Value;
use tare_kernel::host::Host;

use super::cgroup_path::ContainerName;
use super::files::{folders, read_json};

/// The runtimes: the folder with a folder for each container, the file in that, and the name.
const RUNTIMES: [(&str, &str, &str); 2] =
    [("/run/crun", "status", "crun"), ("/run/runc", "state.json", "runc")];

/// How often containers are listed while the folder of one has no state yet.
const SOON: Duration = Duration::from_millis(20);

/// How long after its folder a container's state is expected.
const BEGINNING: Duration = Duration::from_secs(5);

/// How often they are listed if the kernel reports no changes of folders.
const POLLED: Duration = Duration::from_millis(100);

/// How often they are listed without any change.
const QUIET: Duration = Duration::from_secs(2);

/// The containers of runc and crun on a machine, by cgroup. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct LocalContainers(Arc<Mutex<ContainerList>>);

#[derive(Debug)]
struct ContainerList {
    host: Host,
    /// By the file that holds its state.
    containers: HashMap<PathBuf, LocalContainer>,
    /// The same files by cgroup.
    states: HashMap<String, PathBuf>,
    /// Number of states that were read.
    version: u64,
}

/// A container, as its state describes it.
#[derive(Debug)]
struct LocalContainer {
    name: ContainerName,
    bundle: Option<PathBuf>,
    /// When its state was written.
    written: SystemTime,
    /// Whether it was listed since the last [`LocalContainers::forget`].
    is_current: bool,
}

impl LocalContainers {
    /// Makes an empty list of a machine's containers.
    pub(crate) fn new(host: Host) -> Self {
        let (containers, states) = Default::default();
        Self(Arc::new(Mutex::new(ContainerList { host, containers, states, version: 0 })))
    }

    fn lock(&self) -> MutexGuard<'_, ContainerList> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread that lists containers until the list is dropped.
    ///
    /// # Errors
    /// Fails if there can't be another thread.
    pub(crate) fn watch(&self) -> std::io::Result<()> {
        let list = Arc::downgrade(&self.0);
        let builder = std::thread::Builder::new().name("tare-containers".to_owned());
        builder.spawn(move || watch(&list)).map(drop)
    }

    /// Lists the containers. Samples of a container come after it ended, so those that were listed
    /// before stay.
    pub(crate) fn refresh(&self) {
        self.lock().refresh();
    }

    /// Forgets containers that weren't listed since the last call.
    pub(crate) fn forget(&self) {
        let mut listed = self.lock();
        let ContainerList { containers, states, .. } = &mut *listed;
        containers.retain(|_, local| std::mem::take(&mut local.is_current));
        states.retain(|_, state| containers.contains_key(state));
        // Those that still run are current again.
        listed.refresh();
    }

    /// Returns a number that changes when a container is found.
    pub(crate) fn version(&self) -> u64 {
        self.lock().version
    }

    /// Returns the container in whose cgroup, or below it, a cgroup is.
    pub(crate) fn find(&self, cgroup: &str) -> Option<ContainerName> {
        let listed = self.lock();
        let state = Path::new(cgroup).ancestors().find_map(|at| listed.states.get(at.to_str()?));
        state.and_then(|state| listed.containers.get(state)).map(|local| local.name.clone())
    }

    /// Returns the bundle of the container with an id.
    pub(crate) fn bundle(&self, id: &str) -> Option<PathBuf> {
        let listed = self.lock();
        let local = listed.containers.values().find(|local| local.name.id == id);
        local.and_then(|local| local.bundle.clone())
    }
}

impl ContainerList {
    /// Returns whether the folder of a container has no state yet.
    fn refresh(&mut self) -> bool {
        let mut is_beginning = false;
        for (folder, file, runtime) in RUNTIMES {
            for folder in folders(&self.host.path(folder)) {
                let state = folder.join(file);
                let written = state.metadata().and_then(|meta| meta.modified()).ok();
                match self.containers.get_mut(&state) {
                    Some(known) if Some(known.written) == written => known.is_current = true,
                    _ => {
                        let added = written.and_then(|written| self.add(state, written, runtime));
                        is_beginning |= added.is_none() && is_new(&folder);
                    }
                }
            }
        }
        is_beginning
    }

    /// Adds a container. `None`: its state isn't whole.
    fn add(&mut self, state: PathBuf, written: SystemTime, runtime: &'static str) -> Option<()> {
        let id = state.parent()?.file_name()?.to_str()?.to_owned();
        let value = read_json::<Value>(&state)?;
        self.version += 1;
        self.states.extend(cgroups(&value).into_iter().map(|cgroup| (cgroup, state.clone())));
        let name = ContainerName { id, runtime: Some(runtime) };
        let bundle = bundle(&value);
        self.containers.insert(state, LocalContainer { name, bundle, written, is_current: true });
        Some(())
    }
}

/// A folder that a runtime left behind stays without a state.
fn is_new(folder: &Path) -> bool {
    let changed = folder.metadata().and_then(|meta| meta.modified()).ok();
    changed.and_then(|time| time.elapsed().ok()).is_some_and(|age| age < BEGINNING)
}

/// Lists containers whenever a folder of theirs begins or ends.
fn watch(list: &Weak<Mutex<ContainerList>>) {
    let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
    let changes = inotify::init(flags).ok();
    loop {
        let Some(list) = list.upgrade() else { return };
        let mut listed = list.lock().unwrap_or_else(PoisonError::into_inner);
        // Before listing: what changes later is an event.
        let is_watching =
            changes.as_ref().is_some_and(|changes| add_watches(changes, &listed.host));
        let pause = match (listed.refresh(), is_watching) {
            (true, _) => SOON,
            (false, true) => QUIET,
            (false, false) => POLLED,
        };
        drop(listed);
        drop(list);
        wait(changes.as_ref(), pause);
    }
}

/// Watches the runtimes' folders, and that above while one is missing.
fn add_watches(changes: &OwnedFd, host: &Host) -> bool {
    let names = inotify::WatchFlags::CREATE
        | inotify::WatchFlags::DELETE
        | inotify::WatchFlags::MOVED_TO
        | inotify::WatchFlags::ONLYDIR;
    let watch = |path: &Path| inotify::add_watch(changes, path, names).is_ok();
    RUNTIMES.iter().all(|(folder, ..)| {
        let folder = host.path(folder);
        watch(&folder) || folder.parent().is_some_and(watch)
    })
}

/// Waits for a change, at most as long as `pause`.
fn wait(changes: Option<&OwnedFd>, pause: Duration) {
    let Some(changes) = changes.filter(|_| pause != SOON) else {
        return std::thread::sleep(pause);
    };
    let timeout = Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: pause.subsec_nanos().into() };
    let mut waiting = [PollFd::from_borrowed_fd(changes.as_fd(), PollFlags::IN)];
    if poll(&mut waiting, Some(&timeout)).is_ok_and(|ready| ready > 0) {
        let mut buffer = [const { std::mem::MaybeUninit::uninit() }; 4096];
        let mut events = inotify::Reader::new(changes, &mut buffer);
        while events.next().is_ok() {}
    }
}

/// Returns the bundle in the state of crun (`bundle`) or runc (a label `bundle=…`).
fn bundle(state: &Value) -> Option<PathBuf> {
    let labels = state.pointer("/config/labels").and_then(Value::as_array);
    let label = labels.into_iter().flatten().filter_map(Value::as_str);
    let of_runc = label.filter_map(|label| label.strip_prefix("bundle=")).next();
    state.get("bundle").and_then(Value::as_str).or(of_runc).map(PathBuf::from)
}

/// Returns the cgroups in the state of crun (`cgroup-path`) or runc (`cgroup_paths`, folders below
/// the mounts of cgroups).
fn cgroups(state: &Value) -> Vec<String> {
    let of_crun = state.get("cgroup-path").and_then(Value::as_str).into_iter();
    let of_runc = state.get("cgroup_paths").and_then(Value::as_object);
    let of_runc = of_runc.into_iter().flat_map(|paths| {
        paths.iter().filter_map(|(controller, folder)| {
            let below = folder.as_str()?.strip_prefix("/sys/fs/cgroup")?;
            let of_controller = below.strip_prefix(&format!("/{controller}"));
            Some(of_controller.unwrap_or(below))
        })
    });
    of_crun.chain(of_runc).filter(|path| path.len() > 1).map(with_slash).collect()
}

fn with_slash(path: &str) -> String {
    format!("/{}", path.trim_matches('/'))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Instant;

    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn containers_of_crun_and_runc_by_cgroup() {
        let root = tempfile::tempdir().unwrap();
        let crun = r#"{"pid":7,"cgroup-path":"/made/up","bundle":"/b"}"#;
        write(root.path(), "run/crun/web/status", crun);
        let runc = r#"{"cgroup_paths":{"":"/sys/fs/cgroup/db","cpu":"/sys/fs/cgroup/cpu/db1"},
            "config":{"labels":["bundle=/c"]}}"#;
        write(root.path(), "run/runc/db/state.json", runc);
        let list = LocalContainers::new(Host::at(root.path()));
        list.refresh();
        let found = |path: &str| list.find(path).map(|name| name.id);
        assert_eq!(found("/made/up/nested").as_deref(), Some("web"));
        assert_eq!(found("/db").as_deref(), Some("db"));
        assert_eq!(found("/db1").as_deref(), Some("db"));
        assert_eq!(found("/"), None);
        assert_eq!(found("/dbx"), None);
        assert_eq!(list.bundle("db"), Some("/c".into()));
        fs::remove_dir_all(root.path().join("run/crun/web")).unwrap();
        list.forget();
        assert_eq!(found("/made/up").as_deref(), Some("web"), "its last samples may still come");
        list.forget();
        assert_eq!(found("/made/up"), None);
        assert_eq!(found("/db").as_deref(), Some("db"));
    }

    #[test]
    fn a_short_container_is_found_by_the_thread() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("run")).unwrap();
        let list = LocalContainers::new(Host::at(root.path()));
        list.watch().unwrap();
        for id in ["first", "second"] {
            // The state is written after its folder, as runtimes do.
            write(root.path(), &format!("run/crun/{id}/status"), "{");
            let text = format!(r#"{{"cgroup-path":"/{id}"}}"#);
            fs::write(root.path().join(format!("run/crun/{id}/status")), text).unwrap();
            let end = Instant::now() + Duration::from_secs(60);
            while list.find(&format!("/{id}")).is_none() {
                assert!(Instant::now() < end, "{id} isn't found");
                std::thread::sleep(Duration::from_millis(1));
            }
            fs::remove_dir_all(root.path().join("run/crun").join(id)).unwrap();
        }
    }
}
