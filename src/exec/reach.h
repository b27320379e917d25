/*
 * Which functions of a program a test run enters: forced into the units of the sanitized flavour
 * (`-finstrument-functions -include reach.h`), and compiled into each of them as weak hidden code, so
 * that every program and library that is linked has one copy and nothing is added to its link.
 *
 * - C89 and later, gcc and clang, Linux on x86-64 and aarch64. No header is included and no macro of
 *   the project's can come too late: system calls are made here.
 * - Each program or library has one file, which all its processes share: one bit for every 16 bytes
 *   of its code, set when a function that starts there is entered. It is mapped, so a crash, `_exit`
 *   and a fork lose nothing. Its name says where in the sandbox the program is.
 * - Where the runner has made no folder for it (in a build, by hand) nothing is written.
 * - What is called while a dynamic loader still works is seen too: it needs no constructor.
 */
#if !defined(EVERBENCH_REACH_H) && !defined(__cplusplus) && !defined(__ASSEMBLER__)
#if defined(__x86_64__) || defined(__aarch64__)
#define EVERBENCH_REACH_H

#pragma GCC system_header

extern const char __ehdr_start[] __attribute__((__visibility__("hidden")));
extern const char etext[] __attribute__((__visibility__("hidden")));

/* In sections of their own: AddressSanitizer puts nothing around such variables. */
extern unsigned char *everbench_reach_bits;
__attribute__((__weak__, __visibility__("hidden"), __section__(".data.everbench_reach")))
unsigned char *everbench_reach_bits = 0;
extern int everbench_reach_tried;
__attribute__((__weak__, __visibility__("hidden"), __section__(".data.everbench_reach")))
int everbench_reach_tried = 0;

/* These two are called for every function, in units that are compiled without optimisation. */
#if defined(__clang__)
#define EVERBENCH_REACH_FAST
#else
#define EVERBENCH_REACH_FAST , __optimize__("O2")
#endif

#if defined(__x86_64__)
#define EVERBENCH_REACH_OPENAT 257
#define EVERBENCH_REACH_READ 0
#define EVERBENCH_REACH_CLOSE 3
#define EVERBENCH_REACH_FTRUNCATE 77
#define EVERBENCH_REACH_MMAP 9
#define EVERBENCH_REACH_DIRECTORY 0200000
#else
#define EVERBENCH_REACH_OPENAT 56
#define EVERBENCH_REACH_READ 63
#define EVERBENCH_REACH_CLOSE 57
#define EVERBENCH_REACH_FTRUNCATE 46
#define EVERBENCH_REACH_MMAP 222
#define EVERBENCH_REACH_DIRECTORY 040000
#endif

long everbench_reach_call(long, long, long, long, long, long, long);
__attribute__((__weak__, __visibility__("hidden"), __no_instrument_function__,
               __no_sanitize_address__, __no_sanitize_undefined__))
long everbench_reach_call(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ __volatile__("syscall" : "=a"(result)
                         : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                         : "rcx", "r11", "memory");
    return result;
#else
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ __volatile__("svc 0" : "+r"(x0)
                         : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#endif
}

/* The hash (FNV-1a, 64 bits) of the path from which this code was mapped; 0 if it cannot be told. */
unsigned long everbench_reach_path(void);
__attribute__((__weak__, __visibility__("hidden"), __no_instrument_function__,
               __no_sanitize_address__, __no_sanitize_undefined__))
unsigned long everbench_reach_path(void)
{
    char text[512];
    unsigned long here = (unsigned long)__ehdr_start;
    unsigned long low = 0, number = 0, hash = 0, found = 0;
    int field = 0; /* 0: from, 1: to, 2: what comes before the path, 3: the path */
    int inside = 0;
    long n, i;
    long fd = everbench_reach_call(EVERBENCH_REACH_OPENAT, -100, (long)"/proc/self/maps", 02000000, 0, 0, 0);
    if (fd < 0)
        return 0;
    while (!found && (n = everbench_reach_call(EVERBENCH_REACH_READ, fd, (long)text, sizeof text, 0, 0, 0)) > 0) {
        for (i = 0; i < n && !found; i++) {
            char c = text[i];
            if (c == '\n') {
                if (inside && field == 3)
                    found = hash;
                field = 0;
                number = 0;
                inside = 0;
            } else if (field == 0 && c == '-') {
                low = number;
                number = 0;
                field = 1;
            } else if (field == 1 && c == ' ') {
                inside = low <= here && here < number;
                field = 2;
            } else if (field < 2) {
                number = number * 16 + (unsigned long)(c <= '9' ? c - '0' : c - 'a' + 10);
            } else {
                if (field == 2 && c == '/') {
                    field = 3;
                    hash = 14695981039346656037UL;
                }
                if (field == 3)
                    hash = (hash ^ (unsigned char)c) * 1099511628211UL;
            }
        }
    }
    everbench_reach_call(EVERBENCH_REACH_CLOSE, fd, 0, 0, 0, 0, 0);
    return found;
}

void everbench_reach_start(void);
__attribute__((__weak__, __visibility__("hidden"), __no_instrument_function__,
               __no_sanitize_address__, __no_sanitize_undefined__))
void everbench_reach_start(void)
{
    char name[] = "/tmp/reach.0000000000000000";
    unsigned long hash;
    long fd, map, size = (((long)(etext - __ehdr_start) >> 7) + 1);
    int i;
    everbench_reach_tried = 1;
    fd = everbench_reach_call(EVERBENCH_REACH_OPENAT, -100, (long)"/tmp/everbench-reach",
                              EVERBENCH_REACH_DIRECTORY | 02000000, 0, 0, 0);
    if (fd < 0)
        return;
    everbench_reach_call(EVERBENCH_REACH_CLOSE, fd, 0, 0, 0, 0, 0);
    hash = everbench_reach_path();
    if (!hash)
        return;
    for (i = 0; i < 16; i++)
        name[11 + i] = "0123456789abcdef"[(hash >> (60 - 4 * i)) & 15];
    fd = everbench_reach_call(EVERBENCH_REACH_OPENAT, -100, (long)name, 02000102, 0600, 0, 0);
    if (fd < 0)
        return;
    if (everbench_reach_call(EVERBENCH_REACH_FTRUNCATE, fd, size, 0, 0, 0, 0) == 0) {
        map = everbench_reach_call(EVERBENCH_REACH_MMAP, 0, size, 3, 1, fd, 0);
        if (map > 0 || map < -4095)
            everbench_reach_bits = (unsigned char *)map;
    }
    everbench_reach_call(EVERBENCH_REACH_CLOSE, fd, 0, 0, 0, 0, 0);
}

void __cyg_profile_func_enter(void *, void *);
__attribute__((__weak__, __visibility__("hidden"), __no_instrument_function__,
               __no_sanitize_address__, __no_sanitize_undefined__ EVERBENCH_REACH_FAST))
void __cyg_profile_func_enter(void *function, void *site)
{
    unsigned long at;
    unsigned char bit;
    (void)site;
    if (!everbench_reach_bits) {
        if (everbench_reach_tried)
            return;
        everbench_reach_start();
        if (!everbench_reach_bits)
            return;
    }
    at = ((unsigned long)function - (unsigned long)__ehdr_start) >> 4;
    bit = (unsigned char)(1 << (at & 7));
    if (!(everbench_reach_bits[at >> 3] & bit))
        __atomic_fetch_or(&everbench_reach_bits[at >> 3], bit, __ATOMIC_RELAXED);
}

void __cyg_profile_func_exit(void *, void *);
__attribute__((__weak__, __visibility__("hidden"), __no_instrument_function__,
               __no_sanitize_address__, __no_sanitize_undefined__ EVERBENCH_REACH_FAST))
void __cyg_profile_func_exit(void *function, void *site)
{
    (void)function;
    (void)site;
}

#endif
#endif
