/* Programs that misbehave, one for each word of the command line. Written for the tests of the
   sandbox; each prints "start" first, so that a test knows it ran. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void try(const char *what, int result) {
    if (result < 0) printf("%s: refused\n", what);
    else printf("%s: DONE\n", what);
    fflush(stdout);
}

static int is(const char *a, const char *b) { return strcmp(a, b) == 0; }

static void spin(void) { for (volatile unsigned long i = 0;; i++) {} }

static void *sleep_for_ever(void *unused) { (void)unused; for (;;) pause(); return NULL; }

static int recurse(int depth) {
    volatile char frame[1024];
    frame[0] = (char)depth;
    return recurse(depth + 1) + frame[0];
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    const char *arg = argc > 2 ? argv[2] : "";
    static char page[1 << 16];
    memset(page, 'x', sizeof page);
    printf("start\n");
    fflush(stdout);

    if (is(what, "look")) { /* paths that must not be readable or writable */
        for (int i = 2; i < argc; i++) try(argv[i], open(argv[i], O_RDONLY));
    } else if (is(what, "write")) {
        for (int i = 2; i < argc; i++) try(argv[i], open(argv[i], O_WRONLY | O_CREAT, 0666));
    } else if (is(what, "connect")) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(arg))};
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        int s = socket(AF_INET, SOCK_STREAM, 0);
        try("connect", connect(s, (void *)&to, sizeof to));
    } else if (is(what, "forks")) {
        for (;;) if (fork() < 0 && is(arg, "quiet")) pause();
    } else if (is(what, "threads")) {
        pthread_t thread;
        for (;;) if (pthread_create(&thread, NULL, sleep_for_ever, NULL) != 0) pause();
    } else if (is(what, "fill")) { /* one large file, deleted at once if a third word is given */
        int fd = open(arg, O_WRONLY | O_CREAT, 0666);
        if (argc > 3) unlink(arg);
        long written = 0;
        for (ssize_t n; (n = write(fd, page, sizeof page)) > 0;) written += n;
        printf("errno %d after %ld\n", errno, written);
        fflush(stdout);
        pause();
    } else if (is(what, "files")) { /* many small ones */
        for (long i = 0;; i++) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%ld", arg, i);
            int fd = open(path, O_WRONLY | O_CREAT, 0666);
            if (fd < 0 || write(fd, "x", 1) < 0) pause();
            close(fd);
        }
    } else if (is(what, "memory")) {
        for (;;) {
            char *more = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (more == MAP_FAILED) pause();
            memset(more, 1, 1 << 20);
        }
    } else if (is(what, "shared")) { /* little memory, seen by many processes */
        char *block = malloc(40 << 20);
        memset(block, 1, 40 << 20);
        for (int i = 0; i < 8; i++) if (fork() == 0) { usleep(300000); _exit(block[i] - 1); }
        while (wait(NULL) > 0) {}
        return 0;
    } else if (is(what, "reserve")) { /* address space is no memory */
        char *much = mmap(NULL, 1L << 43, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        try("reserve", much == MAP_FAILED ? -1 : 0);
        much[1L << 42] = 1;
    } else if (is(what, "flood")) {
        for (;;) if (write(atoi(arg), page, sizeof page) < 0) pause();
    } else if (is(what, "kill")) {
        kill(getppid(), SIGKILL);
        kill(1, SIGKILL);
        kill(1, SIGTERM);
        kill(-1, SIGKILL);
        kill(0, SIGKILL);
        pause();
    } else if (is(what, "trace")) {
        try("attach", (int)ptrace(PTRACE_ATTACH, 1, 0, 0));
        for (int fd = 0; fd < 64; fd++) {
            char path[64];
            snprintf(path, sizeof path, "/proc/1/fd/%d", fd);
            if (open(path, O_RDWR) >= 0) try(path, 0);
        }
        try("memory", open("/proc/1/mem", O_RDWR));
        return 7;
    } else if (is(what, "daemon")) {
        for (int i = 0; i < 20; i++) {
            if (fork() == 0) {
                setsid();
                signal(SIGTERM, SIG_IGN);
                signal(SIGHUP, SIG_IGN);
                if (fork() == 0) for (;;) pause();
                _exit(0);
            }
        }
        return 5;
    } else if (is(what, "sleep")) {
        for (;;) pause();
    } else if (is(what, "stubborn")) {
        for (int s = 1; s < 32; s++) signal(s, SIG_IGN);
        printf("deaf\n");
        fflush(stdout);
        for (;;) pause();
    } else if (is(what, "polite")) {
        sigset_t set;
        int got;
        sigemptyset(&set);
        sigaddset(&set, SIGTERM);
        sigprocmask(SIG_BLOCK, &set, NULL);
        sigwait(&set, &got);
        printf("goodbye\n");
        return 0;
    } else if (is(what, "burn")) {
        for (int i = 1; i < atoi(arg); i++) if (fork() == 0) spin();
        spin();
    } else if (is(what, "generations")) { /* time of processes that are gone already */
        for (;;) {
            if (fork() == 0) for (volatile long i = 0; i < 20000000; i++) {}
            else { wait(NULL); continue; }
            _exit(0);
        }
    } else if (is(what, "recurse")) {
        return recurse(0);
    } else if (is(what, "lie")) {
        for (int fd = 1; fd < 64; fd++) dprintf(fd, "exit 0\nS%c%c%c%c", 0, 0, 0, 0);
        for (int fd = 3; fd < 64; fd++) if (write(fd, "S\0\0\0\0", 5) == 5) printf("wrote to %d\n", fd);
        return 3;
    } else if (is(what, "close")) {
        for (int fd = 0; fd < 1024; fd++) close(fd);
        if (arg[0]) for (;;) pause();
        return 6;
    } else if (is(what, "descriptors")) {
        for (int fd = 0; fd < 1024; fd++) if (fcntl(fd, F_GETFD) >= 0) printf("open %d\n", fd);
    } else if (is(what, "crash")) {
        raise(atoi(arg));
    } else if (is(what, "exit")) {
        return atoi(arg);
    } else if (is(what, "address")) {
        printf("%p %p %p\n", (void *)page, (void *)&argc, (void *)&printf);
    } else if (is(what, "links")) { /* lures for whoever cleans up, in the folder and in /tmp */
        mkdir("deep", 0700);
        symlink(arg, "link");
        symlink(arg, "deep/link");
        mkfifo("fifo", 0600);
        mknod("socket", S_IFSOCK | 0600, 0);
        int fd = open("deep/program", O_WRONLY | O_CREAT, 0755);
        fchmod(fd, 06755);
        chmod("deep", 0);
        mkdir("closed", 0);
        symlink(arg, "/tmp/san.link");
        mkfifo("/tmp/san.fifo", 0600);
        mkdir("/tmp/san.folder", 0700);
        close(open("/tmp/san.closed", O_WRONLY | O_CREAT, 0));
        fd = open("/tmp/san.a\nb", O_WRONLY | O_CREAT, 0600);
        if (write(fd, "\0\1\377\n", 4) != 4) return 1;
        fd = open("/tmp/san.large", O_WRONLY | O_CREAT, 0600);
        if (ftruncate(fd, 6 << 20) != 0) return 1;
        close(open("/tmp/other", O_WRONLY | O_CREAT, 0600));
        return 0;
    } else if (is(what, "nest")) { /* deeper than any path may be long */
        for (int i = 0; i < 3000; i++) if (mkdir("d", 0700) || chdir("d")) return 1;
        return 0;
    } else if (is(what, "privileges")) {
        try("setuid", setuid(0));
        try("namespace", unshare(CLONE_NEWUSER));
        try("mount", open("/proc/sys/kernel/hostname", O_WRONLY));
        struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
        try("limit", setrlimit(RLIMIT_FSIZE, &limit));
    } else if (is(what, "overflow")) {
        char *small = malloc(8);
        printf("%d\n", small[atoi(arg)]);
    } else if (is(what, "leak")) {
        char *volatile lost = malloc(1234);
        lost = NULL;
        (void)lost;
    } else {
        return 99;
    }
    return 0;
}
