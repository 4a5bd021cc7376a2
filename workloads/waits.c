/* A library for LD_PRELOAD. For each child that its program waits for with wait, wait3, wait4 or
   waitpid, by pid or as any child, it appends a line to the file $WAITS: 'WAITER CHILD MICROSECONDS
   NAME', with the CPU time of the child and of the children it waited for, and its last name. The
   kernel reports that time after the child's exit, so the exit is included. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void name_of(pid_t pid, char *name, size_t size) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, name, size - 1);
    if (file >= 0)
        close(file);
    name[length > 0 ? length : 0] = 0;
    name[strcspn(name, "\n")] = 0;
}

pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage) {
    char name[32] = "", line[96];
    struct rusage own, *used = usage ? usage : &own;
    siginfo_t info = {0};
    /* A zombie keeps its name until it is waited for. */
    if (pid == -1 || pid > 0)
        waitid(pid == -1 ? P_ALL : P_PID, pid == -1 ? 0 : pid, &info, WEXITED | WNOWAIT | (options & WNOHANG));
    if (info.si_pid > 0) {
        name_of(info.si_pid, name, sizeof name);
        pid = info.si_pid;
    }
    pid_t ended = syscall(SYS_wait4, pid, status, options, used);
    const char *log = getenv("WAITS");
    if (ended > 0 && log && info.si_pid == ended) {
        long long us = (used->ru_utime.tv_sec + used->ru_stime.tv_sec) * 1000000LL + used->ru_utime.tv_usec + used->ru_stime.tv_usec;
        int length = snprintf(line, sizeof line, "%d %d %lld %s\n", getpid(), ended, us, name);
        int file = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        if (file >= 0 && write(file, line, length) != length)
            _exit(125);
        close(file);
    }
    return ended;
}

pid_t wait3(int *status, int options, struct rusage *usage) { return wait4(-1, status, options, usage); }

pid_t waitpid(pid_t pid, int *status, int options) { return wait4(pid, status, options, NULL); }

pid_t wait(int *status) { return wait4(-1, status, 0, NULL); }
