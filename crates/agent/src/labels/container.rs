//! Finds a container's name, image and pod in the files that its runtime keeps, without asking the
//! runtime. Everything in these files is untrusted text: images and manifests choose most of it.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{Mode, OFlags};
use serde::Deserialize;
use serde_json::Value;
use tare_kernel::host::Host;

use super::cgroup_path::ContainerName;

/// Limit of the size of a file of a runtime, in bytes.
const FILE_BYTES: u64 = 4 << 20;

/// Folders of containerd's containers, one per namespace of containerd.
const CONTAINERD: &str = "/run/containerd/io.containerd.runtime.v2.task";

/// Where the kubelet keeps the logs of pods: a folder `NAMESPACE_NAME_UID` per pod.
const POD_LOGS: &str = "/var/log/pods";

/// Characters of the names that Kubernetes makes up (`k8s.io/apimachinery/pkg/util/rand`).
const MADE_UP: &str = "bcdfghjklmnpqrstvwxz2456789";

/// What a runtime says about a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerDetails {
    /// Its name, in a pod or on the host.
    pub name: Option<String>,
    /// Its image, with the tag.
    pub image: Option<String>,
    /// The service of a compose file.
    pub compose_service: Option<String>,
    /// The Kubernetes pod's name.
    pub pod: Option<String>,
    /// The pod's namespace.
    pub namespace: Option<String>,
}

/// A container that runc or crun started by itself: their cgroups may have any name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LocalContainer {
    name: ContainerName,
    bundle: Option<PathBuf>,
    /// The file that names it, and when that was written.
    state: PathBuf,
    written: SystemTime,
    /// Whether it was listed since the last [`ContainerFiles::forget`].
    is_current: bool,
}

/// The files of container runtimes on a machine.
#[derive(Clone, Debug)]
pub struct ContainerFiles {
    host: Host,
    /// Containers of runc and crun by cgroup.
    local: HashMap<String, LocalContainer>,
    /// Number of states that were read.
    version: u64,
}

/// A part of the configuration of an OCI runtime (`config.json` of a bundle).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OciConfig {
    annotations: HashMap<String, String>,
}

/// A part of Docker's `config.v2.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct DockerConfig {
    name: String,
    config: DockerImage,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct DockerImage {
    image: Option<String>,
    labels: HashMap<String, String>,
}

/// An entry of Podman's `containers.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StoredContainer {
    id: String,
    names: Vec<String>,
    /// JSON in a string, with the member `image-name`.
    metadata: String,
}

impl ContainerFiles {
    /// Makes a reader of the files of a machine.
    #[must_use]
    pub fn new(host: Host) -> Self {
        Self { host, local: HashMap::new(), version: 0 }
    }

    /// Lists the containers of runc and crun. Samples of a container come after it ended, so those
    /// that were listed before stay.
    pub fn refresh(&mut self) {
        for (folder, file, runtime) in
            [("/run/crun", "status", "crun"), ("/run/runc", "state.json", "runc")]
        {
            for folder in folders(&self.host.path(folder)) {
                let state = folder.join(file);
                let written = state.metadata().and_then(|meta| meta.modified()).ok();
                let known = self.local.values_mut().filter(|local| local.state == state);
                let mut known = known.filter(|local| Some(local.written) == written).peekable();
                if known.peek().is_some() {
                    known.for_each(|local| local.is_current = true);
                } else if let Some(written) = written {
                    self.add_local(state, written, runtime);
                }
            }
        }
    }

    fn add_local(&mut self, state: PathBuf, written: SystemTime, runtime: &'static str) {
        let id = state.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        let Some(id) = id.map(str::to_owned) else { return };
        let Some(value) = read_json::<Value>(&state) else { return };
        self.version += 1;
        let name = ContainerName { id, runtime: Some(runtime) };
        let bundle = bundle(&value);
        let container = LocalContainer { name, bundle, state, written, is_current: true };
        for cgroup in cgroups(&value) {
            self.local.insert(cgroup, container.clone());
        }
    }

    /// Forgets containers that weren't listed since the last call.
    pub fn forget(&mut self) {
        self.local.retain(|_, local| std::mem::take(&mut local.is_current));
    }

    /// Returns a number that changes when a container is found.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the container of runc or crun in whose cgroup, or below it, a cgroup is.
    #[must_use]
    pub fn find_local(&self, cgroup: &str) -> Option<&ContainerName> {
        let mut path = Some(Path::new(cgroup));
        while let Some(at) = path {
            if let Some(found) = self.local.get(at.to_str()?) {
                return Some(&found.name);
            }
            path = at.parent();
        }
        None
    }

    /// Returns what the files say about a container.
    #[must_use]
    pub fn details(&self, container: &ContainerName, pod_uid: Option<&str>) -> ContainerDetails {
        // An id is the name of a folder.
        let found = if is_file_name(&container.id) { self.find(&container.id) } else { None };
        let mut details = found.unwrap_or_default();
        if details.pod.is_none()
            && let Some((namespace, pod)) = pod_uid.and_then(|uid| self.find_pod(uid))
        {
            details.namespace = Some(namespace);
            details.pod = Some(pod);
        }
        details
    }

    fn find(&self, id: &str) -> Option<ContainerDetails> {
        let containerd = folders(&self.host.path(CONTAINERD)).into_iter();
        let mut bundles: Vec<_> = containerd.map(|namespace| namespace.join(id)).collect();
        let storage = self.host.path("/var/lib/containers/storage/overlay-containers");
        bundles.push(storage.join(id).join("userdata"));
        let local = self.local.values().find(|local| local.name.id == id);
        bundles.extend(local.and_then(|local| local.bundle.clone()));
        // Docker's own file has more than the bundle that it gives to containerd.
        let docker = self.host.path("/var/lib/docker/containers").join(id).join("config.v2.json");
        if let Some(docker) = read_json::<DockerConfig>(&docker) {
            return Some(from_docker(&docker));
        }
        let configs = bundles.iter().map(|bundle| bundle.join("config.json"));
        let config = configs.into_iter().find_map(|path| read_json::<OciConfig>(&path));
        let mut details = config.map(|config| from_annotations(&config.annotations));
        let stored = read_json::<Vec<StoredContainer>>(&storage.join("containers.json"));
        if let Some(stored) = stored.and_then(|all| all.into_iter().find(|one| one.id == id)) {
            add_stored(details.get_or_insert_default(), stored);
        }
        details
    }

    /// Finds the namespace and the name of a pod among the folders of its logs.
    fn find_pod(&self, uid: &str) -> Option<(String, String)> {
        folders(&self.host.path(POD_LOGS)).iter().find_map(|folder| {
            let name = folder.file_name()?.to_str()?;
            let (namespace, rest) = name.split_once('_')?;
            let (pod, of) = rest.split_once('_')?;
            (of == uid).then(|| (namespace.to_owned(), pod.to_owned()))
        })
    }
}

/// Returns the name of what owns a pod, from the pod's name: Kubernetes appends to it a number
/// (stateful sets), made-up characters (daemon sets, jobs), or a hash and made-up characters
/// (deployments).
#[must_use]
pub fn pod_owner(pod: &str) -> &str {
    let is_made_up = |part: &str| part.chars().all(|c| MADE_UP.contains(c));
    let Some((name, last)) = pod.rsplit_once('-') else { return pod };
    if !last.is_empty() && last.bytes().all(|digit| digit.is_ascii_digit()) && last.len() < 5 {
        return name;
    }
    if last.len() != 5 || !is_made_up(last) {
        return pod;
    }
    match name.rsplit_once('-') {
        Some((deployment, hash)) if (6..=10).contains(&hash.len()) && is_made_up(hash) => {
            deployment
        }
        _ => name,
    }
}

/// Returns the tag of an image, if it isn't `latest`.
#[must_use]
pub fn image_tag(image: &str) -> Option<&str> {
    let named = image.split_once('@').map_or(image, |(name, _)| name);
    let last = named.rsplit_once('/').map_or(named, |(_, last)| last);
    let (_, tag) = last.split_once(':')?;
    (!tag.is_empty() && tag != "latest").then_some(tag)
}

fn from_annotations(annotations: &HashMap<String, String>) -> ContainerDetails {
    let first = |keys: &[&str]| {
        keys.iter().find_map(|key| annotations.get(*key)).filter(|text| !text.is_empty()).cloned()
    };
    ContainerDetails {
        name: first(&[
            "io.kubernetes.cri.container-name",
            "io.kubernetes.container.name",
            "nerdctl/name",
        ]),
        image: first(&[
            "io.kubernetes.cri.image-name",
            "io.kubernetes.cri-o.ImageName",
            "org.opencontainers.image.ref.name",
        ]),
        compose_service: first(&["com.docker.compose.service"]),
        pod: first(&["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"]),
        namespace: first(&["io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"]),
    }
}

fn from_docker(docker: &DockerConfig) -> ContainerDetails {
    let label = |key: &str| docker.config.labels.get(key).cloned();
    let name = docker.name.trim_start_matches('/');
    ContainerDetails {
        name: label("io.kubernetes.container.name")
            .or_else(|| (!name.is_empty()).then(|| name.to_owned())),
        image: docker.config.image.clone(),
        compose_service: label("com.docker.compose.service"),
        pod: label("io.kubernetes.pod.name"),
        namespace: label("io.kubernetes.pod.namespace"),
    }
}

fn add_stored(details: &mut ContainerDetails, stored: StoredContainer) {
    let metadata: Value = serde_json::from_str(&stored.metadata).unwrap_or_default();
    let image = metadata.get("image-name").and_then(Value::as_str).map(str::to_owned);
    details.image = details.image.take().or(image);
    details.name = details.name.take().or_else(|| stored.names.into_iter().next());
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

fn is_file_name(id: &str) -> bool {
    !id.is_empty() && id != "." && id != ".." && !id.contains('/')
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> Option<T> {
    // A bundle may be a folder of any user: opening a FIFO must not wait.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ID: &str = "4f2c9c0f7a4c6cb1d5f0b7a1d3e8c2a94f2c9c0f7a4c6cb1d5f0b7a1d3e8c2a9";

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn details(root: &Path, id: &str, pod_uid: Option<&str>) -> ContainerDetails {
        let mut files = ContainerFiles::new(Host::at(root));
        files.refresh();
        files.details(&ContainerName { id: id.to_owned(), runtime: None }, pod_uid)
    }

    #[test]
    fn a_pod_of_containerd() {
        let root = tempfile::tempdir().unwrap();
        let config = r#"{"ociVersion":"1.1.0","annotations":{
            "io.kubernetes.cri.container-name":"api","io.kubernetes.cri.image-name":"r.example/api:2.1",
            "io.kubernetes.cri.sandbox-name":"api-7d4b9c6f5d-x2x9z","io.kubernetes.cri.sandbox-namespace":"shop"}}"#;
        let folder = "run/containerd/io.containerd.runtime.v2.task/k8s.io";
        write(root.path(), &format!("{folder}/{ID}/config.json"), config);
        let expected = ContainerDetails {
            name: Some("api".into()),
            image: Some("r.example/api:2.1".into()),
            compose_service: None,
            pod: Some("api-7d4b9c6f5d-x2x9z".into()),
            namespace: Some("shop".into()),
        };
        assert_eq!(details(root.path(), ID, None), expected);
    }

    #[test]
    fn a_container_of_docker_compose() {
        let root = tempfile::tempdir().unwrap();
        let config = r#"{"ID":"x","Name":"/shop-db-1","Config":{"Image":"postgres:17",
            "Labels":{"com.docker.compose.service":"db"}}}"#;
        write(root.path(), &format!("var/lib/docker/containers/{ID}/config.v2.json"), config);
        let found = details(root.path(), ID, None);
        assert_eq!(found.name.as_deref(), Some("shop-db-1"));
        assert_eq!(found.image.as_deref(), Some("postgres:17"));
        assert_eq!(found.compose_service.as_deref(), Some("db"));
    }

    #[test]
    fn a_container_of_podman() {
        let root = tempfile::tempdir().unwrap();
        let list = format!(
            r#"[{{"id":"{ID}","names":["web"],"metadata":"{{\"image-name\":\"docker.example/nginx:1.29\"}}"}}]"#
        );
        let storage = "var/lib/containers/storage/overlay-containers";
        write(root.path(), &format!("{storage}/containers.json"), &list);
        write(root.path(), &format!("{storage}/{ID}/userdata/config.json"), "{}");
        let found = details(root.path(), ID, None);
        assert_eq!(found.name.as_deref(), Some("web"));
        assert_eq!(found.image.as_deref(), Some("docker.example/nginx:1.29"));
    }

    #[test]
    fn containers_of_crun_and_runc_by_cgroup() {
        let root = tempfile::tempdir().unwrap();
        let crun = r#"{"pid":7,"cgroup-path":"/made/up","bundle":"/b"}"#;
        write(root.path(), "run/crun/web/status", crun);
        let runc = r#"{"cgroup_paths":{"":"/sys/fs/cgroup/db","cpu":"/sys/fs/cgroup/cpu/db1"},
            "config":{"labels":["bundle=/c"]}}"#;
        write(root.path(), "run/runc/db/state.json", runc);
        let mut files = ContainerFiles::new(Host::at(root.path()));
        files.refresh();
        let found = |path: &str| files.find_local(path).map(|name| name.id.as_str());
        assert_eq!(found("/made/up/nested"), Some("web"));
        assert_eq!(found("/db"), Some("db"));
        assert_eq!(found("/db1"), Some("db"));
        assert_eq!(found("/"), None);
        assert_eq!(found("/dbx"), None);
        fs::remove_dir_all(root.path().join("run/crun/web")).unwrap();
        files.refresh();
        files.forget();
        let found = |files: &ContainerFiles| files.find_local("/made/up").cloned();
        assert!(found(&files).is_some(), "its last samples may still come");
        files.refresh();
        files.forget();
        assert_eq!(found(&files), None);
    }

    #[test]
    fn a_pod_is_found_by_the_folder_of_its_logs() {
        let root = tempfile::tempdir().unwrap();
        let uid = "0a1b2c3d-1111-2222-3333-444455556666";
        fs::create_dir_all(root.path().join(format!("var/log/pods/shop_api-0_{uid}"))).unwrap();
        let found = details(root.path(), ID, Some(uid));
        assert_eq!(
            (found.namespace.as_deref(), found.pod.as_deref()),
            (Some("shop"), Some("api-0"))
        );
    }

    #[test]
    fn owners_of_pods() {
        for (pod, owner) in [
            ("api-7d4b9c6f5d-x2x9z", "api"),
            ("my-api-7d4b9c6f5d-x2x9z", "my-api"),
            ("fluentd-x2x9z", "fluentd"),
            ("postgres-0", "postgres"),
            ("postgres-12", "postgres"),
            ("coredns", "coredns"),
            ("kube-proxy-node1", "kube-proxy-node1"),
            ("web-front", "web-front"),
        ] {
            assert_eq!(pod_owner(pod), owner, "{pod}");
        }
    }

    #[test]
    fn tags_of_images() {
        assert_eq!(image_tag("nginx:1.29"), Some("1.29"));
        assert_eq!(image_tag("r.example:5000/team/api:v2@sha256:00"), Some("v2"));
        for none in ["nginx", "r.example:5000/api", "nginx:latest", "api@sha256:00", "nginx:"] {
            assert_eq!(image_tag(none), None, "{none}");
        }
    }

    #[test]
    fn ids_that_are_paths_read_nothing() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "var/lib/config.v2.json", r#"{"Name":"stolen"}"#);
        for id in ["..", "../..", ".", "", "a/../.."] {
            assert_eq!(details(root.path(), id, None), ContainerDetails::default(), "{id}");
        }
    }
}
