//! Finds a container's name, image and pod in the files that its runtime keeps, without asking the
//! runtime. Everything in these files is untrusted text: images and manifests choose most of it.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use tare_kernel::host::Host;

use super::cgroup_path::ContainerName;
use super::files::{folders, read_json};
use super::local::LocalContainers;

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

/// The files of container runtimes on a machine.
#[derive(Clone, Debug)]
pub struct ContainerFiles {
    host: Host,
    local: LocalContainers,
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
        Self { local: LocalContainers::new(host.clone()), host }
    }

    /// Returns the containers of runc and crun.
    pub(super) fn local(&self) -> &LocalContainers {
        &self.local
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
        bundles.extend(self.local.bundle(id));
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

fn is_file_name(id: &str) -> bool {
    !id.is_empty() && id != "." && id != ".." && !id.contains('/')
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    const ID: &str = "4f2c9c0f7a4c6cb1d5f0b7a1d3e8c2a94f2c9c0f7a4c6cb1d5f0b7a1d3e8c2a9";

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn details(root: &Path, id: &str, pod_uid: Option<&str>) -> ContainerDetails {
        let files = ContainerFiles::new(Host::at(root));
        files.local().refresh();
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
