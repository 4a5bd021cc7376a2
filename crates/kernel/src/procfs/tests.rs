use super::*;
use crate::host::fixture::machine;

const STAT: &str =
    " S 41 7 7 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 3 0 500 1000 10 18446744073709551615 1 1 0\n";

#[test]
fn names_can_hold_anything() {
    for comm in ["sh", "a) R 1 (b", "x\ny", ") (", ""] {
        let text = format!("7 ({comm}){STAT}");
        let wanted = ProcessStat {
            comm: comm.as_bytes().to_vec(),
            ppid: 41,
            is_kernel_thread: false,
            threads: 3,
        };
        assert_eq!(parse_stat(text.as_bytes()), Some(wanted));
    }
    let kworker = format!("9 (kworker/u8:0-events_unbound){STAT}").replace("4194560", "69238880");
    let found = parse_stat(kworker.as_bytes()).unwrap();
    assert!(found.is_kernel_thread && found.comm == b"kworker/u8:0-ev");
    assert_eq!(parse_stat(b"7 (sh) S 1"), None);
    assert_eq!(parse_stat(b")("), None);
}

#[test]
fn a_process_is_found_by_its_files() {
    let machine = machine(&[
        ("/proc/7/task/7/stat", format!("7 (sh){STAT}")),
        ("/proc/7/task/12/comm", "a\nb\n".to_owned()),
        (
            "/proc/12/status",
            "Name:\ta\\nTgid:\t9\nTgid:\t7\nUid:\t5\t6\t7\t8\nNSpid:\t12\t1\n".to_owned(),
        ),
        ("/proc/version", String::new()),
    ]);
    let host = machine.host();
    assert_eq!((processes(&host).unwrap(), threads(&host, 7).unwrap()), (vec![7, 12], vec![7, 12]));
    assert_eq!((process(&host, 7).unwrap().ppid, process_of(&host, 12).unwrap()), (41, 7));
    assert_eq!(identity(&host, 12).unwrap(), Identity { uid: 6, own_pid: 1 });
    assert_eq!(thread_comm(&host, 7, 12).unwrap(), b"a\nb");
    assert_eq!(process(&host, 8).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(namespaces(&host, 7, 7), [(0, 0); 7]);
}

#[test]
fn this_process_is_there() {
    let host = Host::default();
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let own = process(&host, pid).unwrap();
    assert!(own.threads > 1 && !own.is_kernel_thread);
    assert!(namespaces(&host, pid, pid).iter().all(|(dev, inode)| *dev != 0 && *inode != 0));
    let mut text = Vec::new();
    read_mappings(&host, pid, &mut text).unwrap();
    let program = std::env::current_exe().unwrap();
    let code = mappings(&text)
        .find(|mapping| mapping.prot & libc::PROT_EXEC.cast_unsigned() != 0)
        .unwrap();
    assert_eq!(&*code.path, program.as_os_str().as_encoded_bytes());
}
