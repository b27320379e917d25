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
#define EVERBENCH_REPORT_UNUSED __attribute__((__unused__))

/* POSIX; <stdio.h> hides it under -std=c89. */
extern FILE *fdopen(int, const char *);

/* Where to print what was meant for `to`. Static, so that no other unit can name the stream. */
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

static EVERBENCH_REPORT_UNUSED int everbench_report_done(FILE *meant, FILE *to, int result)
{
    if (to != meant && fflush(to) != 0)
        return EOF;
    return result;
}

static EVERBENCH_REPORT_UNUSED int everbench_report_vfprintf(FILE *meant, const char *format,
                                                             va_list arguments)
{
    FILE *to = everbench_report_to(meant);
    return everbench_report_done(meant, to, vfprintf(to, format, arguments));
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
    FILE *to = everbench_report_to(meant);
    return everbench_report_done(meant, to, fputs(text, to));
}

static EVERBENCH_REPORT_UNUSED int everbench_report_puts(const char *text)
{
    FILE *to = everbench_report_to(stdout);
    int result = fputs(text, to);
    if (result != EOF && fputc('\n', to) == EOF)
        result = EOF;
    return everbench_report_done(stdout, to, result);
}

static EVERBENCH_REPORT_UNUSED int everbench_report_fputc(int character, FILE *meant)
{
    FILE *to = everbench_report_to(meant);
    return everbench_report_done(meant, to, fputc(character, to));
}

static EVERBENCH_REPORT_UNUSED int everbench_report_putchar(int character)
{
    return everbench_report_fputc(character, stdout);
}

static EVERBENCH_REPORT_UNUSED size_t everbench_report_fwrite(const void *items, size_t size,
                                                              size_t count, FILE *meant)
{
    FILE *to = everbench_report_to(meant);
    size_t result = fwrite(items, size, count, to);
    return everbench_report_done(meant, to, 0) == 0 ? result : 0;
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
