/*
 * What a test program prints, sent past the code under test: forced into a project's own test
 * programs (`-include report.h`), so that what they print to stdout or stderr goes to descriptor 9.
 * Code under test that prints "OK" is then only printing; it must never be included in that code.
 *
 * - C89 and later, gcc and clang, glibc and musl. Not C++: <cstdio> removes the macros.
 * - The macros are function-like: `FILE *out = stdout; fprintf(out, ...)` is redirected because the
 *   stream is compared at run time; a pointer to the function (`f = fprintf`) is not.
 * - Any other stream is passed through untouched.
 * - Each call is written out before it returns: a crash loses nothing, units stay in order, and a
 *   forked child inherits no unwritten text.
 * - Each call is a frame: 0x1e, the run's token, the number of bytes in eight hexadecimal digits, the
 *   bytes. The token comes by the environment, where it is wiped out before anything else runs, so
 *   that code under test that writes to the descriptor writes no frame. Code that searches this
 *   process's memory, or that runs as a constructor of a lower number, can still find it.
 * - Without a descriptor 9 the program prints as it always did, so that it can be run by hand.
 * - <stdio.h> is included here, so macros that select features (_GNU_SOURCE, ...) and stand in the
 *   test program's text come too late: give them on the command line.
 */
#ifndef EVERBENCH_REPORT_H
#define EVERBENCH_REPORT_H

#ifdef __cplusplus
#error "report.h redirects C test programs only"
#endif

#pragma GCC system_header /* quiet about variadic macros under -std=c89 -pedantic-errors */

#include <stdarg.h>
#include <stdio.h>

#define EVERBENCH_REPORT_FD 9
#define EVERBENCH_REPORT_TOKEN "EVERBENCH_REPORT_TOKEN"
#define EVERBENCH_REPORT_UNUSED __attribute__((__unused__))

/* POSIX and C; declared here so that no further header comes before the test program's own. */
extern FILE *fdopen(int, const char *);
extern char *getenv(const char *);
extern int unsetenv(const char *);
extern void *malloc(__SIZE_TYPE__);
extern void free(void *);

/* Static, so that no other unit can name it. */
static char everbench_report_token[33];

/* Every unit takes the token before the first of them wipes it out. */
static EVERBENCH_REPORT_UNUSED __attribute__((__constructor__(101))) void everbench_report_take(void)
{
    const char *token = getenv(EVERBENCH_REPORT_TOKEN);
    int i;
    for (i = 0; token && token[i] && i < 32; i++)
        everbench_report_token[i] = token[i];
}

static EVERBENCH_REPORT_UNUSED __attribute__((__constructor__(102))) void everbench_report_hide(void)
{
    volatile char *token = getenv(EVERBENCH_REPORT_TOKEN);
    for (; token && *token; token++)
        *token = 'x';
    unsetenv(EVERBENCH_REPORT_TOKEN);
}

/* Where to print what was meant for `to`. */
static EVERBENCH_REPORT_UNUSED FILE *everbench_report_to(FILE *to)
{
    static FILE *report;
    static int tried;
    if (to != stdout && to != stderr)
        return to;
    if (!tried) {
        tried = 1;
        report = fdopen(EVERBENCH_REPORT_FD, "w");
    }
    return report ? report : to;
}

/* Writes `size` bytes meant for a stream; 0 or EOF. */
static EVERBENCH_REPORT_UNUSED int everbench_report_write(FILE *meant, const void *bytes,
                                                          size_t size)
{
    FILE *to = everbench_report_to(meant);
    if (to == meant)
        return fwrite(bytes, 1, size, to) == size ? 0 : EOF;
    if (size == 0)
        return 0;
    if (everbench_report_token[0]
        && fprintf(to, "\036%s%08lx", everbench_report_token, (unsigned long)size) < 0)
        return EOF;
    return fwrite(bytes, 1, size, to) == size && fflush(to) == 0 ? 0 : EOF;
}

static EVERBENCH_REPORT_UNUSED int everbench_report_vfprintf(FILE *meant, const char *format,
                                                             va_list arguments)
{
    FILE *to = everbench_report_to(meant);
    char small[512], *text = small;
    int size, result;
    va_list again;
    if (to == meant)
        return vfprintf(to, format, arguments);
    __builtin_va_copy(again, arguments);
    size = __builtin_vsnprintf(small, sizeof small, format, arguments);
    if (size >= (int)sizeof small) {
        text = (char *)malloc((size_t)size + 1);
        size = text ? __builtin_vsnprintf(text, (size_t)size + 1, format, again) : -1;
    }
    va_end(again);
    result = size < 0 || everbench_report_write(meant, text, (size_t)size) == EOF ? -1 : size;
    if (text != small)
        free(text);
    return result;
}

static EVERBENCH_REPORT_UNUSED int everbench_report_vprintf(const char *format, va_list arguments)
{
    return everbench_report_vfprintf(stdout, format, arguments);
}

static EVERBENCH_REPORT_UNUSED __attribute__((__format__(__printf__, 2, 3))) int
everbench_report_fprintf(FILE *meant, const char *format, ...)
{
    int result;
    va_list arguments;
    va_start(arguments, format);
    result = everbench_report_vfprintf(meant, format, arguments);
    va_end(arguments);
    return result;
}

static EVERBENCH_REPORT_UNUSED __attribute__((__format__(__printf__, 1, 2))) int
everbench_report_printf(const char *format, ...)
{
    int result;
    va_list arguments;
    va_start(arguments, format);
    result = everbench_report_vfprintf(stdout, format, arguments);
    va_end(arguments);
    return result;
}

static EVERBENCH_REPORT_UNUSED int everbench_report_fputs(const char *text, FILE *meant)
{
    return everbench_report_write(meant, text, __builtin_strlen(text));
}

static EVERBENCH_REPORT_UNUSED int everbench_report_puts(const char *text)
{
    int result = everbench_report_fputs(text, stdout);
    return result == EOF ? EOF : everbench_report_write(stdout, "\n", 1);
}

static EVERBENCH_REPORT_UNUSED int everbench_report_fputc(int character, FILE *meant)
{
    unsigned char byte = (unsigned char)character;
    return everbench_report_write(meant, &byte, 1) == EOF ? EOF : byte;
}

static EVERBENCH_REPORT_UNUSED int everbench_report_putchar(int character)
{
    return everbench_report_fputc(character, stdout);
}

static EVERBENCH_REPORT_UNUSED size_t everbench_report_fwrite(const void *items, size_t size,
                                                              size_t count, FILE *meant)
{
    if (everbench_report_to(meant) == meant)
        return fwrite(items, size, count, meant);
    return everbench_report_write(meant, items, size * count) == EOF ? 0 : count;
}

#undef printf
#undef fprintf
#undef vprintf
#undef vfprintf
#undef puts
#undef fputs
#undef putchar
#undef putc
#undef fputc
#undef fwrite
#define printf(...) everbench_report_printf(__VA_ARGS__)
#define fprintf(...) everbench_report_fprintf(__VA_ARGS__)
#define vprintf(...) everbench_report_vprintf(__VA_ARGS__)
#define vfprintf(...) everbench_report_vfprintf(__VA_ARGS__)
#define puts(...) everbench_report_puts(__VA_ARGS__)
#define fputs(...) everbench_report_fputs(__VA_ARGS__)
#define putchar(...) everbench_report_putchar(__VA_ARGS__)
#define putc(...) everbench_report_fputc(__VA_ARGS__)
#define fputc(...) everbench_report_fputc(__VA_ARGS__)
#define fwrite(...) everbench_report_fwrite(__VA_ARGS__)

#endif
