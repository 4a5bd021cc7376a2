/* syscalls [TOPIC]: makes a few system calls of one kind, the same on every run; without TOPIC,
   lists the topics. Tests compare the output of tare trace and strace for the calls. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char buffer[4096];

static void handler(int number) { (void)number; }

static void files(void) {
    int file = open("syscalls.tmp", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    (void)!write(file, "one line\nand another one, which is longer than what is shown\n", 61);
    lseek(file, -5, SEEK_END);
    lseek(file, 0, SEEK_SET);
    (void)!read(file, buffer, 9);
    (void)!pread(file, buffer, 100, 3);
    (void)!pwrite(file, "\1\2\0033\x80", 5, 7);
    (void)!ftruncate(file, 10);
    fsync(file);
    fallocate(file, FALLOC_FL_KEEP_SIZE, 0, 8192);
    posix_fadvise(file, 0, 0, POSIX_FADV_SEQUENTIAL);
    fchmod(file, 0600);
    close(file);
    truncate("syscalls.tmp", 5);
    unlink("syscalls.tmp");
}

static void folders(void) {
    mkdir("syscalls.dir", 0755);
    mkdirat(AT_FDCWD, "syscalls.dir/in", 0700);
    symlink("nowhere", "syscalls.dir/link");
    (void)!readlink("syscalls.dir/link", buffer, 100);
    rename("syscalls.dir/in", "syscalls.dir/out");
    DIR *folder = opendir("syscalls.dir");
    while (readdir(folder))
        ;
    closedir(folder);
    rmdir("syscalls.dir/out");
    unlinkat(AT_FDCWD, "syscalls.dir/link", 0);
    rmdir("syscalls.dir");
    (void)!chdir("/");
    (void)!getcwd(buffer, sizeof buffer);
}

static void stats(void) {
    struct stat status;
    struct statx more;
    stat("/dev/null", &status);
    lstat("/proc/self", &status);
    stat("/", &status);
    stat("/no/such/file", &status);
    statx(AT_FDCWD, "/dev", AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &more);
    statx(AT_FDCWD, "/nothing", 0, STATX_SIZE | STATX_MODE, &more);
    access("/etc/passwd", R_OK);
    faccessat(AT_FDCWD, "/etc/shadow-", W_OK | X_OK, 0);
    umask(022);
    umask(077);
}

static void errors(void) {
    close(99);
    (void)!read(-1, buffer, 10);
    (void)!write(77, "x", 1);
    open("/no/such/folder/file", O_RDONLY);
    open("/etc", O_WRONLY);
    mkdir("/proc/x", 0777);
    kill(0x7ffffff0, SIGTERM);
    ioctl(0x55, 0x5401, buffer);
    dup2(98, 97);
    execl("/no/such/program", "program", "with", "arguments", NULL);
    mmap(NULL, 0, PROT_READ, MAP_PRIVATE, -1, 0);
    open((char *)1, O_RDONLY);
    socket(99, SOCK_STREAM, 0);
    syscall(SYS_rt_sigaction, 99, NULL, NULL, 8);
}

static void tcp(void) {
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(46211), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof name;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    bind(listener, (struct sockaddr *)&name, sizeof name);
    listen(listener, 5);
    getsockname(listener, (struct sockaddr *)&name, &length);
    int client = socket(AF_INET, SOCK_STREAM, IPPROTO_TCP);
    connect(client, (struct sockaddr *)&name, sizeof name);
    int server = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    send(client, "hello", 5, MSG_NOSIGNAL);
    recv(server, buffer, 100, MSG_PEEK);
    recv(server, buffer, 100, 0);
    recv(server, buffer, 100, MSG_DONTWAIT);
    length = sizeof one;
    getsockopt(client, SOL_SOCKET, SO_ERROR, &one, &length);
    length = sizeof name;
    getpeername(client, (struct sockaddr *)&name, &length);
    shutdown(client, SHUT_WR);
    (void)!read(server, buffer, 10);
    close(client);
    close(server);
}

static void unix_sockets(void) {
    int pair[2];
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "/no/such/socket"};
    connect(pair[0], (struct sockaddr *)&name, sizeof name);
    sendto(pair[0], "x", 1, MSG_DONTWAIT, (struct sockaddr *)&name, sizeof name);
    struct iovec out[2] = {{"abc", 3}, {"defg\n", 5}}, in[2] = {{buffer, 4}, {buffer + 4, 50}};
    struct msghdr sent = {.msg_iov = out, .msg_iovlen = 2}, received = {.msg_iov = in, .msg_iovlen = 2};
    sendmsg(pair[0], &sent, 0);
    recvmsg(pair[1], &received, MSG_DONTWAIT);
    recvmsg(pair[1], &received, MSG_DONTWAIT);
    int other = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    listen(other, 1);
    close(other);
}

static void udp6(void) {
    int sender = socket(AF_INET6, SOCK_DGRAM, 0);
    struct sockaddr_in6 name = {.sin6_family = AF_INET6, .sin6_port = htons(46212), .sin6_addr = in6addr_loopback};
    bind(sender, (struct sockaddr *)&name, sizeof name);
    sendto(sender, "datagram", 8, 0, (struct sockaddr *)&name, sizeof name);
    struct sockaddr_in6 from;
    socklen_t length = sizeof from;
    recvfrom(sender, buffer, sizeof buffer, MSG_DONTWAIT, (struct sockaddr *)&from, &length);
}

static void pipes(void) {
    int ends[2];
    (void)!pipe(ends);
    (void)!write(ends[1], "through a pipe", 14);
    (void)!read(ends[0], buffer, 4);
    dup2(ends[0], 50);
    fcntl(ends[0], F_GETFL);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[0], F_GETFD);
    fcntl(ends[0], F_DUPFD_CLOEXEC, 60);
    fcntl(ends[1], F_GETPIPE_SZ);
    (void)!pipe2(ends, O_CLOEXEC | O_NONBLOCK);
    (void)!read(ends[0], buffer, 10);
    struct iovec vectors[3] = {{"a", 1}, {"bc", 2}, {"", 0}};
    (void)!writev(ends[1], vectors, 3);
    struct iovec into[2] = {{buffer, 2}, {buffer + 10, 20}};
    (void)!readv(ends[0], into, 2);
}

static void signals(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigset_t set;
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, NULL, &action);
    signal(SIGPIPE, SIG_IGN);
    raise(SIGUSR1);
    kill(getpid(), SIGUSR1);
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    sigprocmask(SIG_BLOCK, NULL, &set);
    sigfillset(&set);
    sigprocmask(SIG_SETMASK, &set, NULL);
    kill(getpid(), SIGTERM);
    sigpending(&set);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void memory(void) {
    char *pages = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pages[0] = 1;
    mprotect(pages, 4096, PROT_READ);
    mprotect(pages + 4096, 4096, PROT_NONE);
    madvise(pages + 8192, 8192, MADV_DONTNEED);
    msync(pages, 4096, MS_SYNC);
    mremap(pages + 16384, 16384, 8192, 0);
    mlock(pages, 4096);
    munlock(pages, 4096);
    munmap(pages, 65536);
    (void)!sbrk(4096);
    mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static void processes(void) {
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(3);
    waitpid(child, &status, 0);
    waitpid(-1, &status, WNOHANG);
    getpid();
    getppid();
    getpgid(0);
    getpriority(PRIO_PROCESS, 0);
    sched_yield();
    getuid();
}

static void killed(void) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    usleep(50000);
    kill(child, SIGKILL);
    wait(&status);
}

static void vforks(void) {
    pid_t child = vfork();
    if (child == 0)
        _exit(7);
    waitpid(child, NULL, 0);
}

static void *thread(void *unused) {
    syscall(SYS_getppid);
    return unused;
}

static void threads(void) {
    pthread_t id;
    pthread_create(&id, NULL, thread, NULL);
    pthread_join(id, NULL);
}

static void epolls(void) {
    int ends[2], epoll = epoll_create1(EPOLL_CLOEXEC);
    (void)!pipe(ends);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = ends[0]}, events[4];
    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
    epoll_wait(epoll, events, 4, 0);
    (void)!write(ends[1], "!", 1);
    epoll_wait(epoll, events, 4, 1000);
    event.events = EPOLLOUT | EPOLLONESHOT;
    epoll_ctl(epoll, EPOLL_CTL_MOD, ends[0], &event);
    epoll_ctl(epoll, EPOLL_CTL_DEL, ends[0], NULL);
    epoll_ctl(epoll, EPOLL_CTL_DEL, ends[0], NULL);
}

static void polls(void) {
    int ends[2];
    (void)!pipe(ends);
    struct pollfd descriptors[2] = {{ends[0], POLLIN, 0}, {ends[1], POLLOUT, 0}};
    poll(descriptors, 2, 0);
    poll(descriptors, 1, 5);
    (void)!write(ends[1], "!", 1);
    poll(descriptors, 2, -1);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    struct timeval none = {0, 0};
    select(ends[0] + 1, &set, NULL, NULL, &none);
}

static void timers(void) {
    struct timespec time = {0, 1000};
    nanosleep(&time, NULL);
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    struct itimerspec when = {{0, 0}, {100, 5}};
    timerfd_settime(timer, 0, &when, NULL);
    (void)!read(timer, buffer, 8);
    alarm(100);
    alarm(0);
    syscall(SYS_clock_getres, CLOCK_REALTIME, &time);
}

static void descriptors(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    eventfd(3, EFD_NONBLOCK | EFD_CLOEXEC);
    signalfd(-1, &set, SFD_CLOEXEC);
    int notify = inotify_init1(IN_NONBLOCK);
    inotify_add_watch(notify, "/tmp", IN_CREATE | IN_DELETE);
    (void)!read(notify, buffer, 100);
    memfd_create("name", MFD_CLOEXEC);
    syscall(SYS_close_range, 100, ~0U, 0);
}

static void limits(void) {
    struct rlimit limit;
    struct rusage usage;
    struct utsname name;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 512;
    setrlimit(RLIMIT_NOFILE, &limit);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, RLIM_INFINITY});
    getrusage(RUSAGE_CHILDREN, &usage);
    uname(&name);
    prctl(PR_SET_NAME, "a name", 0, 0, 0);
}

static void locks(void) {
    int file = open("syscalls.lock", O_RDWR | O_CREAT, 0600);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 5, .l_len = 10};
    flock(file, LOCK_EX | LOCK_NB);
    fcntl(file, F_SETLK, &lock);
    fcntl(file, F_GETLK, &lock);
    flock(file, LOCK_UN);
    unlink("syscalls.lock");
}

static void futexes(void) {
    static int word = 1;
    struct timespec time = {0, 1000000};
    syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0);
    syscall(SYS_futex, &word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 1, &time, NULL, 0);
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 1, &time, NULL, -1);
}

static void executes(void) {
    if (fork() == 0) {
        execl("/bin/true", "true", "an \"argument\"", "\33[31m", NULL);
        _exit(1);
    }
    wait(NULL);
}

static void random_bytes(void) {
    (void)!getrandom(buffer, 0, GRND_NONBLOCK);
    syscall(SYS_getrandom, 1, 8, 0);
    syscall(SYS_sched_getaffinity, 0, 8, buffer);
    syscall(SYS_io_uring_setup, 0, buffer);
    syscall(500, 1, 2, 3);
}

/* Not in the list of topics: 2,000 file names of arbitrary bytes, up to 64 KiB long, and invalid
   pointers. */
static void hostile(void) {
    static char name[65536];
    unsigned int random = 1;
    for (int i = 0; i < 2000; i++) {
        unsigned int length = 1 + (random >> 8) % (i % 100 == 0 ? sizeof name - 1 : 60);
        for (unsigned int at = 0; at < length; at++) {
            random = random * 1103515245 + 12345;
            name[at] = 1 + (random >> 16) % 255;
        }
        name[length] = 0;
        open(name, O_RDONLY);
        char *words[] = {name, name, NULL};
        if (i % 50 == 0)
            execve(name, words, words);
        prctl(PR_SET_NAME, name, 0, 0, 0);
    }
    static const int calls[] = {SYS_read, SYS_write, SYS_openat, SYS_readv, SYS_rt_sigaction, SYS_writev, SYS_sendmsg, SYS_recvmsg, SYS_bind,
                                SYS_execve, SYS_getsockopt, SYS_connect, SYS_epoll_ctl, SYS_clone3, SYS_statx, SYS_openat, SYS_prlimit64};
    for (int i = 0; i < 2000; i++) {
        long values[6];
        for (int at = 0; at < 6; at++) {
            random = random * 1103515245 + 12345;
            values[at] = (random >> 16) % 3 == 0 ? (long)(random % 100) : (long)random << (random % 33);
        }
        /* clone3 with an invalid size: it creates no process. */
        if (calls[i % 17] == SYS_clone3)
            values[1] = 3;
        /* These write to no memory of this process. */
        values[1] |= 1L << 62;
        syscall(calls[i % 17], -1, values[1], values[2], values[3] | 1L << 62, values[4] | 1L << 62, values[5]);
    }
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } topics[] = {{"files", files}, {"folders", folders}, {"stats", stats}, {"errors", errors}, {"tcp", tcp}, {"unix", unix_sockets},
                  {"udp6", udp6}, {"pipes", pipes}, {"signals", signals}, {"memory", memory}, {"processes", processes}, {"killed", killed},
                  {"vfork", vforks}, {"threads", threads}, {"epoll", epolls}, {"poll", polls}, {"timers", timers},
                  {"descriptors", descriptors}, {"limits", limits}, {"locks", locks}, {"futex", futexes}, {"exec", executes},
                  {"random", random_bytes}};
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        if (argc < 2)
            puts(topics[i].name);
        else if (strcmp(argv[1], topics[i].name) == 0) {
            topics[i].run();
            return 0;
        }
    if (argc > 1 && strcmp(argv[1], "hostile") == 0) {
        hostile();
        return 0;
    }
    return argc < 2 ? 0 : 2;
}
