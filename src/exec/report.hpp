/*
 * report.h for C++: what a test program prints, sent past the code under test. The same frames, the
 * same token, the same limits; besides the functions of <cstdio>, with or without `std::`,
 * `std::cout`, `std::cerr` and `std::clog` are redirected where the test program itself names them.
 *
 * - <cstdio> and <iostream> are included first, so that their own lines are not changed by the macros
 *   below, and so that including them again removes none.
 * - The streams are objects of each test unit: a reference to `std::cout` that was taken by another
 *   unit is the real one, and prints where the program always printed.
 * - Each write of a stream is a frame and is out before it returns.
 */
#ifndef EVERBENCH_REPORT_HPP
#define EVERBENCH_REPORT_HPP

#ifndef __cplusplus
#error "report.hpp redirects C++ test programs only"
#endif

#pragma GCC system_header

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <streambuf>

#include <stdlib.h>
#include <unistd.h>

#define EVERBENCH_REPORT_UNUSED __attribute__((__unused__))

/* Static, so that no other unit can name it. */
static char everbench_report_token[33];

/* Every unit takes the token before the first of them wipes it out. */
static EVERBENCH_REPORT_UNUSED __attribute__((__constructor__(101))) void everbench_report_take()
{
    const char *token = ::getenv("EVERBENCH_REPORT_TOKEN");
    for (int i = 0; token && token[i] && i < 32; i++)
        everbench_report_token[i] = token[i];
}

static EVERBENCH_REPORT_UNUSED __attribute__((__constructor__(102))) void everbench_report_hide()
{
    volatile char *token = ::getenv("EVERBENCH_REPORT_TOKEN");
    for (; token && *token; token++)
        *token = 'x';
    ::unsetenv("EVERBENCH_REPORT_TOKEN");
}

/* Where to print what was meant for `to`. */
static EVERBENCH_REPORT_UNUSED FILE *everbench_report_to(FILE *to)
{
    static FILE *report;
    static bool tried;
    if (to != stdout && to != stderr)
        return to;
    if (!tried) {
        tried = true;
        report = ::fdopen(9, "w");
    }
    return report ? report : to;
}

/* Writes `size` bytes meant for a stream; 0 or EOF. */
static EVERBENCH_REPORT_UNUSED int everbench_report_write(FILE *meant, const void *bytes,
                                                          std::size_t size)
{
    FILE *to = everbench_report_to(meant);
    if (to == meant)
        return std::fwrite(bytes, 1, size, to) == size ? 0 : EOF;
    if (size == 0)
        return 0;
    if (everbench_report_token[0]
        && std::fprintf(to, "\036%s%08lx", everbench_report_token, (unsigned long)size) < 0)
        return EOF;
    return std::fwrite(bytes, 1, size, to) == size && std::fflush(to) == 0 ? 0 : EOF;
}

static EVERBENCH_REPORT_UNUSED int everbench_report_vfprintf(FILE *meant, const char *format,
                                                             va_list arguments)
{
    FILE *to = everbench_report_to(meant);
    if (to == meant)
        return std::vfprintf(to, format, arguments);
    char small[512], *text = small;
    va_list again;
    va_copy(again, arguments);
    int size = std::vsnprintf(small, sizeof small, format, arguments);
    if (size >= (int)sizeof small) {
        text = (char *)std::malloc((std::size_t)size + 1);
        size = text ? std::vsnprintf(text, (std::size_t)size + 1, format, again) : -1;
    }
    va_end(again);
    int result =
        size < 0 || everbench_report_write(meant, text, (std::size_t)size) == EOF ? -1 : size;
    if (text != small)
        std::free(text);
    return result;
}

static EVERBENCH_REPORT_UNUSED int everbench_report_vprintf(const char *format, va_list arguments)
{
    return everbench_report_vfprintf(stdout, format, arguments);
}

static EVERBENCH_REPORT_UNUSED __attribute__((__format__(__printf__, 2, 3))) int
everbench_report_fprintf(FILE *meant, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int result = everbench_report_vfprintf(meant, format, arguments);
    va_end(arguments);
    return result;
}

static EVERBENCH_REPORT_UNUSED __attribute__((__format__(__printf__, 1, 2))) int
everbench_report_printf(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int result = everbench_report_vfprintf(stdout, format, arguments);
    va_end(arguments);
    return result;
}

static EVERBENCH_REPORT_UNUSED int everbench_report_fputs(const char *text, FILE *meant)
{
    return everbench_report_write(meant, text, std::strlen(text));
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

static EVERBENCH_REPORT_UNUSED std::size_t everbench_report_fwrite(const void *items,
                                                                   std::size_t size,
                                                                   std::size_t count, FILE *meant)
{
    if (everbench_report_to(meant) == meant)
        return std::fwrite(items, size, count, meant);
    return everbench_report_write(meant, items, size * count) == EOF ? 0 : count;
}

/* A stream of C++ that writes to the report. Without the report it is the real one. */
namespace {
class EverbenchReportBuffer : public std::streambuf {
  public:
    EverbenchReportBuffer(FILE *meant, std::streambuf *real) : meant_(meant), real_(real) {}

  protected:
    int_type overflow(int_type c)
    {
        if (traits_type::eq_int_type(c, traits_type::eof()))
            return traits_type::not_eof(c);
        char byte = traits_type::to_char_type(c);
        return xsputn(&byte, 1) == 1 ? c : traits_type::eof();
    }
    std::streamsize xsputn(const char *text, std::streamsize size)
    {
        if (everbench_report_to(meant_) == meant_)
            return real_->sputn(text, size);
        return everbench_report_write(meant_, text, (std::size_t)size) == EOF ? 0 : size;
    }
    int sync()
    {
        return everbench_report_to(meant_) == meant_ ? real_->pubsync() : 0;
    }

  private:
    FILE *meant_;
    std::streambuf *real_;
};

EverbenchReportBuffer everbench_report_out(stdout, std::cout.rdbuf());
EverbenchReportBuffer everbench_report_err(stderr, std::cerr.rdbuf());
EVERBENCH_REPORT_UNUSED std::ostream everbench_report_cout(&everbench_report_out);
EVERBENCH_REPORT_UNUSED std::ostream everbench_report_cerr(&everbench_report_err);
EVERBENCH_REPORT_UNUSED std::ostream everbench_report_clog(&everbench_report_err);
} // namespace

/* For `std::printf` and the like, which the macros turn into these. */
namespace std {
using ::everbench_report_cerr;
using ::everbench_report_clog;
using ::everbench_report_cout;
using ::everbench_report_fprintf;
using ::everbench_report_fputc;
using ::everbench_report_fputs;
using ::everbench_report_fwrite;
using ::everbench_report_printf;
using ::everbench_report_putchar;
using ::everbench_report_puts;
using ::everbench_report_vfprintf;
using ::everbench_report_vprintf;
} // namespace std

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
#define cout everbench_report_cout
#define cerr everbench_report_cerr
#define clog everbench_report_clog

#endif
