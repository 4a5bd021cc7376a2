//! Reads the container, the pod and the systemd unit from the path of a cgroup. Container runtimes
//! and systemd name cgroups by rules, which differ by runtime, and by who creates the cgroup
//! (systemd or the runtime itself).

use std::borrow::Cow;

/// Hexadecimal digits of a container's id.
const CONTAINER_ID: usize = 64;

/// What the path of a cgroup says about its tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupOwner {
    /// The innermost container.
    pub container: Option<ContainerName>,
    /// The uid of the Kubernetes pod.
    pub pod_uid: Option<String>,
    /// The innermost systemd unit, if the tasks aren't in a container.
    pub unit: Option<String>,
}

/// A container as its runtime calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerName {
    /// Its id, or the name of a container without an id.
    pub id: String,
    /// The runtime or the tool that started it; `None` if the path doesn't tell.
    pub runtime: Option<&'static str>,
}

/// Prefixes of the scopes that runtimes let systemd create, and the runtime.
const SCOPES: &[(&str, &str)] = &[
    ("docker-", "docker"),
    ("cri-containerd-", "containerd"),
    ("nerdctl-", "containerd"),
    ("crio-", "cri-o"),
    ("libpod-", "podman"),
    ("crun-", "crun"),
    ("runc-", "runc"),
    ("machine-", "systemd-nspawn"),
];

/// Names of folders that hold cgroups of containers, and the runtime.
const FOLDERS: &[(&str, &str)] = &[
    ("docker", "docker"),
    ("lxc", "lxc"),
    ("libpod_parent", "podman"),
    ("ecs", "ecs"),
    ("garden", "garden"),
    ("actions_job", "docker"),
];

/// Prefixes of the cgroups of processes that watch a container and aren't in it.
const MONITORS: &[&str] = &["libpod-conmon-", "crio-conmon-", "lxc.monitor."];

impl CgroupOwner {
    /// Reads a path such as `/system.slice/docker-….scope`.
    #[must_use]
    pub fn from_path(path: &str) -> Self {
        let mut owner = Self::default();
        let mut parent = "";
        for name in path.split('/').filter(|name| !name.is_empty() && *name != "..") {
            if let Some(uid) = pod_uid(name) {
                owner.pod_uid = Some(uid);
            } else if let Some(container) = container(parent, name) {
                owner.container = Some(container);
                owner.unit = None;
            } else if owner.container.is_none() && is_unit(name) {
                owner.unit = Some(unescape(name).into_owned());
            }
            parent = name;
        }
        owner
    }
}

/// Returns the uid in the name of a pod's cgroup: `kubepods-burstable-podUID.slice`, in which
/// systemd replaced hyphens, or `podUID`.
fn pod_uid(name: &str) -> Option<String> {
    let uid = match name.strip_suffix(".slice") {
        Some(slice) if slice.contains("kubepods") => slice.rsplit_once("-pod")?.1.replace('_', "-"),
        Some(_) => return None,
        None => name.strip_prefix("pod")?.to_owned(),
    };
    let is_uid = uid.len() >= 32 && uid.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    is_uid.then_some(uid)
}

fn container(parent: &str, name: &str) -> Option<ContainerName> {
    if MONITORS.iter().any(|monitor| name.starts_with(monitor)) {
        return None;
    }
    let named = |id: &str, runtime| ContainerName { id: id.to_owned(), runtime };
    if let Some(payload) = name.strip_prefix("lxc.payload.") {
        return Some(named(payload, Some("lxc")));
    }
    if let Some(scope) = name.strip_suffix(".scope") {
        let (prefix, runtime) = SCOPES.iter().find(|(prefix, _)| scope.starts_with(prefix))?;
        let id = unescape(&scope[prefix.len()..]).into_owned();
        return (!id.is_empty()).then_some(ContainerName { id, runtime: Some(runtime) });
    }
    let of_folder = FOLDERS.iter().find(|(folder, _)| *folder == parent).map(|(_, by)| *by);
    let id = name.strip_prefix("libpod-").unwrap_or(name);
    let is_id = id.len() == CONTAINER_ID && id.bytes().all(|digit| digit.is_ascii_hexdigit());
    match of_folder {
        Some("lxc" | "garden") => Some(named(name, of_folder)),
        _ if is_id => Some(named(id, of_folder)),
        _ => None,
    }
}

/// Whether a cgroup is of a systemd unit that runs processes. A user's manager is a unit that holds
/// others.
fn is_unit(name: &str) -> bool {
    let (_, kind) = name.rsplit_once('.').unwrap_or_default();
    matches!(kind, "service" | "scope" | "socket" | "mount" | "swap") && name != "init.scope"
}

/// Replaces systemd's escapes of bytes, such as `\x2d`, if the result is text.
fn unescape(name: &str) -> Cow<'_, str> {
    if !name.contains("\\x") {
        return name.into();
    }
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits = rest.strip_prefix(b"\\x").and_then(|after| after.get(..2));
        let byte = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &rest[4..] } else { behind };
    }
    String::from_utf8(bytes).map_or_else(|_| name.into(), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4f2c9c0f7a4c6cb1d5f0b7a1d3e8c2a94f2c9c0f7a4c6cb1d5f0b7a1d3e8c2a9";
    const POD: &str = "0a1b2c3d-1111-2222-3333-444455556666";
    const POD_: &str = "0a1b2c3d_1111_2222_3333_444455556666";

    fn container(path: &str) -> Option<(String, Option<&'static str>)> {
        CgroupOwner::from_path(path).container.map(|found| (found.id, found.runtime))
    }

    #[test]
    fn containers_of_runtimes() {
        let id = || ID.to_owned();
        for (path, runtime) in [
            (format!("/docker/{ID}"), Some("docker")),
            (format!("/system.slice/docker-{ID}.scope"), Some("docker")),
            (format!("/system.slice/docker-{ID}.scope/init.scope"), Some("docker")),
            (format!("/machine.slice/libpod-{ID}.scope/container"), Some("podman")),
            (
                format!(
                    "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope"
                ),
                Some("podman"),
            ),
            (format!("/libpod_parent/libpod-{ID}"), Some("podman")),
            (format!("/default.slice/nerdctl-{ID}.scope"), Some("containerd")),
            (format!("/../../system.slice/docker-{ID}.scope"), Some("docker")),
            (format!("/ecs/3f1e/{ID}"), None),
        ] {
            assert_eq!(container(&path), Some((id(), runtime)), "{path}");
        }
        assert_eq!(container("/lxc.payload.web/system.slice"), Some(("web".into(), Some("lxc"))));
        assert_eq!(container("/lxc/web"), Some(("web".into(), Some("lxc"))));
        assert_eq!(container("/user.slice/crun-web.scope"), Some(("web".into(), Some("crun"))));
        let nspawn = Some(("deb-12".into(), Some("systemd-nspawn")));
        assert_eq!(container("/machine.slice/machine-deb\\x2d12.scope/payload"), nspawn);
    }

    #[test]
    fn monitors_of_containers_are_outside_of_them() {
        for path in [
            format!("/machine.slice/libpod-conmon-{ID}.scope"),
            format!("/system.slice/crio-conmon-{ID}.scope"),
            "/lxc.monitor.web".to_owned(),
        ] {
            assert_eq!(container(&path), None, "{path}");
        }
    }

    #[test]
    fn pods_by_systemd_and_by_folders() {
        let burstable = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable";
        for (path, runtime) in [
            (format!("/kubepods/burstable/pod{POD}/{ID}"), None),
            (format!("/kubepods/pod{POD}/{ID}/nested"), None),
            (format!("/{burstable}-pod{POD_}.slice/cri-containerd-{ID}.scope"), Some("containerd")),
            (format!("/{burstable}-pod{POD_}.slice/crio-{ID}.scope"), Some("cri-o")),
            (
                format!(
                    "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{POD_}.slice/cri-containerd-{ID}.scope"
                ),
                Some("containerd"),
            ),
        ] {
            let owner = CgroupOwner::from_path(&path);
            assert_eq!(owner.pod_uid.as_deref(), Some(POD), "{path}");
            assert_eq!(container(&path), Some((ID.to_owned(), runtime)), "{path}");
            assert_eq!(owner.unit, None, "{path}");
        }
    }

    #[test]
    fn the_innermost_container_counts() {
        let other = "b".repeat(64);
        let path = format!("/docker/{other}/kubelet/kubepods/besteffort/pod{POD}/{ID}");
        assert_eq!(container(&path), Some((ID.to_owned(), None)));
    }

    #[test]
    fn systemd_units() {
        let unit = |path: &str| CgroupOwner::from_path(path).unit;
        assert_eq!(unit("/system.slice/nginx.service"), Some("nginx.service".into()));
        assert_eq!(unit("/system.slice/nginx.service/worker"), Some("nginx.service".into()));
        let app = "/user.slice/user-1000.slice/user@1000.service/app.slice/app-a\\x2db.scope";
        assert_eq!(unit(app), Some("app-a-b.scope".into()));
        assert_eq!(unit("/"), None);
        assert_eq!(unit("/init.scope"), None);
        assert_eq!(unit(&format!("/system.slice/docker-{ID}.scope")), None);
    }

    #[test]
    fn hostile_names_are_no_containers() {
        for path in [
            "/docker/../../etc/passwd",
            "/kubepods/pod../x",
            "/pod/docker-.scope",
            "/kubepods/podzz/x\\x2",
            "/\\x/\\xzz",
        ] {
            let owner = CgroupOwner::from_path(path);
            assert_eq!((owner.container, owner.pod_uid), (None, None), "{path}");
        }
    }
}
