//! The programs that are recorded, each for some seconds.

use std::path::{Path, PathBuf};

use crate::benchmark::symbols::programs;
use crate::run::succeed;
use crate::scratch::Scratch;

/// A command to record.
#[derive(Debug)]
pub(super) struct RecordCommand {
    pub(super) name: &'static str,
    /// A shell command. It writes the pid of a process with a perf map to the file `pid`.
    line: String,
    folder: PathBuf,
}

const JAVASCRIPT: &str = "
function fibonacci(n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
function sorted(n) { const all = []; for (let i = 0; i < n; i++) all.push((i * 7919) % 10007);
  return all.sort((a, b) => a - b)[n >> 1]; }
function joined(n) { let text = ''; for (let i = 0; i < n; i++) text += i.toString(36); return text.length; }
let sum = 0;
for (const end = Date.now() + 4000; Date.now() < end;) sum += fibonacci(22) + sorted(5000) + joined(5000);
console.log(sum);
";

const PYTHON: &str = "
import json, re, time
end, sum = time.time() + 4, 0
while time.time() < end:
    words = {str(n * 7919 % 10007): n for n in range(5000)}
    sum += len(json.dumps(sorted(words))) + len(re.findall('9[0-9]+', ' '.join(words)))
print(sum)
";

const JAVA: &str = r#"
import java.util.*;
public class Work {
    static int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
    static int sorted(int n) {
        List<Integer> all = new ArrayList<>();
        for (int i = 0; i < n; i++) all.add(i * 7919 % 10007);
        Collections.sort(all);
        return all.get(n / 2);
    }
    static int joined(int n) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < n; i++) text.append(Integer.toString(i, 36));
        return text.length();
    }
    public static void main(String[] words) throws Exception {
        long sum = 0, end = System.currentTimeMillis() + 4000;
        while (System.currentTimeMillis() < end) sum += fibonacci(22) + sorted(5000) + joined(5000);
        String pid = Long.toString(ProcessHandle.current().pid());
        new ProcessBuilder("jcmd", pid, "Compiler.perfmap").start().waitFor();
        System.out.println(sum);
    }
}
"#;

/// Reads the clock in the vdso, and sorts.
const CLOCK: &str = "
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000 + t.tv_nsec / 1000000; }
int main(void) {
    static int all[1000];
    long sum = 0;
    for (long end = now() + 1500; now() < end;) {
        for (int i = 0; i < 1000; i++) { all[i] = i * 7919 % 10007; sum += now() & 1; }
        qsort(all, 1000, sizeof *all, order);
    }
    printf(\"%ld\\n\", sum + all[500]);
    return 0;
}
";

/// Ten commands: programs of seven languages, compiled, interpreted or compiled at run time; one
/// that runs mostly in the kernel; and stripped, position-independent and static binaries.
pub(super) fn all(scratch: &Scratch<'_>) -> anyhow::Result<Vec<RecordCommand>> {
    let folder = scratch.folder().canonicalize()?;
    for (name, text) in
        [("work.js", JAVASCRIPT), ("work.py", PYTHON), ("Work.java", JAVA), ("clock.c", CLOCK)]
    {
        std::fs::write(folder.join(name), text)?;
    }
    let path = |name: &str| folder.join(name).display().to_string();
    let build = |line: &str| succeed(&["sh", "-ec", line].map(str::to_owned));
    build(&format!("cc -O2 -o {} {}", path("pie"), path("clock.c")))?;
    build(&format!("cc -O2 -static -o {} {}", path("static"), path("clock.c")))?;
    build(&format!("javac -d {} {}", folder.display(), path("Work.java")))?;
    let compress = programs::compressor(&folder, "compress", &["-O2", "-g"])?;
    let cpp = programs::cpp(&folder)?.display().to_string();
    let go = programs::go(&folder)?.display().to_string();
    let rust = std::path::absolute(programs::tare()?)?.display().to_string();
    let read = path("read.data");
    let python = std::path::absolute(scratch.setting.workload("short-python.sh"))?;
    let tare = scratch.setting.tare();
    build(&format!("{tare} record -q -o {read} -F 20000 -g -- sh {} 60", python.display()))?;
    let compress = compress.display().to_string();
    let stripped = path("compress-stripped");
    build(&format!(
        "objcopy --only-keep-debug {compress} {stripped}.debug; strip -o {stripped} {compress}; \
         objcopy --add-gnu-debuglink={stripped}.debug {stripped}"
    ))?;
    // `sh -c`, because in a subshell `$$` is the pid of the parent shell.
    let jit = |line: &str| format!("sh -c 'echo $$ >{}; exec {line}'", path("pid"));
    let recorded = |name, line| RecordCommand { name, line, folder: folder.clone() };
    let loops = |line: &str| format!("for n in 1 2 3; do {line}; done");
    Ok(vec![
        recorded("C", format!("{compress} {compress} 12")),
        recorded("C++", format!("{cpp} 60")),
        recorded("Rust", loops(&format!("{rust} report --json --no-cache -i {read}"))),
        recorded("Go", loops(&format!("{go} -l $(go env GOROOT)/src/net"))),
        recorded("Node", jit(&format!("node --perf-basic-prof {}", path("work.js")))),
        recorded("Python", format!("python3 {}", path("work.py"))),
        recorded(
            "JVM",
            jit(&format!("java -XX:+PreserveFramePointer -cp {} Work", folder.display())),
        ),
        recorded(
            "kernel-heavy",
            "dd if=/dev/zero of=/dev/null bs=512 count=4000000; find /usr /proc -xdev | wc -l"
                .into(),
        ),
        recorded("stripped with a debug link", format!("{stripped} {compress} 12")),
        recorded("PIE, static, vdso", format!("{}; {}", path("pie"), path("static"))),
    ])
}

impl RecordCommand {
    pub(super) fn record(&self, scratch: &Scratch<'_>, file: &Path) -> anyhow::Result<()> {
        let tare = scratch.setting.tare();
        let file = file.display().to_string();
        let record = [&tare, "record", "-q", "-F", "2500", "-o", &file, "--", "sh", "-c"];
        // Node.js leaves a log in its working folder.
        let line = format!("cd {}; ({}) >/dev/null 2>&1 || :", self.folder.display(), self.line);
        let words = [&record[..], &[line.as_str()]].concat();
        succeed(&words.into_iter().map(str::to_owned).collect::<Vec<_>>()).map(|_| ())
    }

    /// Removes the perf map that its process left.
    pub(super) fn clear_up(&self) {
        let file = self.folder.join("pid");
        if let Ok(pid) = std::fs::read_to_string(&file) {
            let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", pid.trim()));
            let _ = std::fs::remove_file(file);
        }
    }
}
