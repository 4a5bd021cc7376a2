/* starts [-e] COMMAND...: forks, executes a command and waits for it: the minimum for any program
   that counts a command's events. With -e it counts four events from the command's first
   instruction: task-clock, context switches, migrations and page faults. */
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EVENTS = 4 };
static const int software[EVENTS] = {PERF_COUNT_SW_TASK_CLOCK, PERF_COUNT_SW_CONTEXT_SWITCHES, PERF_COUNT_SW_CPU_MIGRATIONS, PERF_COUNT_SW_PAGE_FAULTS};

int main(int argc, char **argv) {
    int counts = argc > 1 && strcmp(argv[1], "-e") == 0, events[EVENTS], go[2], status = 0;
    char byte = 0, **command = argv + 1 + counts;
    if (argc < 2 + counts || pipe(go))
        return 2;
    pid_t child = fork();
    if (child == 0) {
        close(go[1]);
        if (counts && read(go[0], &byte, 1) != 1)
            _exit(125);
        close(go[0]);
        execvp(*command, command);
        perror(*command);
        _exit(127);
    }
    for (int i = 0; counts && i < EVENTS; i++) {
        struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .config = software[i]};
        attr.disabled = attr.inherit = attr.enable_on_exec = 1;
        events[i] = syscall(SYS_perf_event_open, &attr, child, -1, -1, PERF_FLAG_FD_CLOEXEC);
        if (events[i] < 0)
            return 125;
    }
    if (counts && write(go[1], &byte, 1) != 1)
        return 125;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 125;
    for (int i = 0; counts && i < EVENTS; i++) {
        unsigned long long count;
        if (read(events[i], &count, sizeof count) != sizeof count)
            return 125;
        close(events[i]);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
