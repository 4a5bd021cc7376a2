/* ran PROGRAM ARGUMENTS: prints the addresses at which a static program executed instructions, one
   a line, in the order of first execution. It single-steps the program's first thread, not its
   children and further threads. x86-64 only, and only addresses below 64 MiB. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __x86_64__
#include <sys/user.h>

enum { LIMIT = 64 << 20 };
static unsigned char seen[LIMIT];

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    pid_t pid = fork();
    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execvp(argv[1], argv + 1);
        _exit(127);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
        struct user_regs_struct registers;
        if (ptrace(PTRACE_GETREGS, pid, 0, &registers))
            break;
        if (registers.rip < LIMIT && !seen[registers.rip]) {
            seen[registers.rip] = 1;
            printf("%llx\n", registers.rip);
        }
        int sig = WSTOPSIG(status);
        if (ptrace(PTRACE_SINGLESTEP, pid, 0, sig == SIGTRAP ? 0 : sig))
            break;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
#else
int main(void) {
    fputs("ran: only on x86-64\n", stderr);
    return 1;
}
#endif
