#include "cli/ui.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>
#include "cli/command.h"
#include "fs/base/size.h"

static bool utf8;

void sfs_ui_init(void)
{
    setlocale(LC_ALL, "");
    utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
    setlocale(LC_NUMERIC, "C");
    if (!utf8)
        setlocale(LC_CTYPE, "C.UTF-8"); /* names are UTF-8 whatever the terminal's language */
}

bool sfs_ui_has_utf8(void)
{
    return utf8;
}

/* Word by word; the cursor is in column `at`, further lines begin in column `indent`. limit 0: one line. */
static void wrap(FILE *f, const char *text, unsigned at, unsigned indent, unsigned limit)
{
    bool first = true;
    for (const char *p = text; *p;) {
        if (*p == '\n') {
            fprintf(f, "\n%*s", (int)indent, "");
            at = indent;
            first = true;
            p++;
            continue;
        }
        size_t len = strcspn(p, " \n");
        char word[256];
        snprintf(word, sizeof(word), "%.*s", (int)len, p);
        unsigned width = sfs_ui_width(word) + (len >= sizeof(word) ? (unsigned)(len - sizeof(word) + 1) : 0);
        if (!first && limit && at + 1 + width > limit) {
            fprintf(f, "\n%*s", (int)indent, "");
            at = indent;
            first = true;
        }
        if (len) {
            fprintf(f, "%s%.*s", first ? "" : " ", (int)len, p);
            at += width + (first ? 0 : 1);
            first = false;
        }
        p += len;
        while (*p == ' ')
            p++;
    }
    fputc('\n', f);
}

static void say(const char *prefix, const char *text)
{
    char clean[4096], line[4400];
    sfs_ui_clean(text, clean, sizeof(clean));
    size_t len = strlen(clean);
    if (sfs_ui_is_terminal(stderr))
        fputs("\r\033[K", stderr); /* over a progress bar */
    snprintf(line, sizeof(line), "spacesfs: %s%s%s", prefix, clean,
             len && strchr(".?!:", clean[len - 1]) ? "" : ".");
    if (sfs_ui_columns(stderr))
        wrap(stderr, line, 0, 2, sfs_ui_columns(stderr));
    else
        fprintf(stderr, "%s\n", line);
}

void sfs_ui_error(const char *fmt, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    fflush(stdout);
    say("", text);
}

void sfs_ui_warning(const char *text)
{
    fflush(stdout);
    while (*text) {
        char line[2048];
        size_t len = strcspn(text, "\n");
        snprintf(line, sizeof(line), "%.*s", (int)(len < 2000 ? len : 2000), text);
        if (line[0])
            say("warning: ", line);
        text += len + (text[len] == '\n');
    }
}

void sfs_ui_out_of_memory(void)
{
    fputs("spacesfs: out of memory\n", stderr);
    exit(SFS_EXIT_FAILED);
}

bool sfs_ui_confirm(const struct sfs_cli *c, const char *fmt, ...)
{
    char text[2048], clean[4096], answer[16];
    if (c->yes)
        return true;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    sfs_ui_clean(text, clean, sizeof(clean));
    if (!isatty(STDIN_FILENO)) {
        sfs_ui_error("%s: %s There is no terminal to ask on. If that is what you want, say so with --yes.",
                     c->command->name, clean);
        return false;
    }
    fflush(stdout);
    fprintf(stderr, "%s\nGo on? Type yes or no: ", clean);
    fflush(stderr);
    if (!fgets(answer, sizeof(answer), stdin)) {
        fputc('\n', stderr);
        answer[0] = '\0';
    }
    answer[strcspn(answer, "\r\n")] = '\0';
    if (!strcasecmp(answer, "yes") || !strcasecmp(answer, "y"))
        return true;
    sfs_ui_error("%s: nothing was changed.", c->command->name);
    return false;
}

bool sfs_ui_is_terminal(FILE *f)
{
    const char *term = getenv("TERM");
    return isatty(fileno(f)) && term && *term && strcmp(term, "dumb") != 0;
}

bool sfs_ui_has_colour(FILE *f)
{
    const char *no = getenv("NO_COLOR");
    return !(no && *no) && sfs_ui_is_terminal(f);
}

unsigned sfs_ui_columns(FILE *f)
{
    struct winsize size;
    if (!sfs_ui_is_terminal(f))
        return 0;
    if (ioctl(fileno(f), TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
        return 80;
    return size.ws_col < 40 ? 40 : size.ws_col;
}

const char *sfs_ui_tone(FILE *f, enum sfs_tone tone)
{
    static const char *const codes[] = {"", "\033[32m", "\033[33m", "\033[1;31m", "\033[2m", "\033[1m"};
    return sfs_ui_has_colour(f) ? codes[tone] : "";
}

const char *sfs_ui_tone_end(FILE *f, enum sfs_tone tone)
{
    return tone != SFS_TONE_PLAIN && sfs_ui_has_colour(f) ? "\033[0m" : "";
}

/* Length of the UTF-8 character at p and its columns; 0 when the bytes aren't one that may be shown. */
static unsigned printable(const char *p, unsigned *columns)
{
    mbstate_t state;
    wchar_t wc;
    memset(&state, 0, sizeof(state));
    size_t len = mbrtowc(&wc, p, strnlen(p, 4), &state);
    if (len == 0 || len > 4)
        return 0;
    int w = wcwidth(wc);
    if (w < 0)
        return 0;
    *columns = (unsigned)w;
    return (unsigned)len;
}

char *sfs_ui_clean(const char *text, char *out, size_t cap)
{
    size_t n = 0;
    while (*text) {
        unsigned columns, len = printable(text, &columns);
        if (n + 5 > cap)
            break;
        if (len) {
            memcpy(out + n, text, len);
            n += len;
            text += len;
        } else {
            n += (size_t)snprintf(out + n, cap - n, "\\x%02x", (unsigned char)*text++);
        }
    }
    out[n] = '\0';
    return out;
}

unsigned sfs_ui_width(const char *text)
{
    unsigned width = 0;
    while (*text) {
        unsigned columns = 1, len = printable(text, &columns);
        width += columns;
        text += len ? len : 1;
    }
    return width;
}

size_t sfs_ui_fit(const char *text, unsigned columns)
{
    const char *p = text;
    for (unsigned width = 0; *p;) {
        unsigned w = 1, len = printable(p, &w);
        if (width + w > columns)
            break;
        width += w;
        p += len ? len : 1;
    }
    return (size_t)(p - text);
}

char *sfs_ui_size(const struct sfs_cli *c, uint64_t bytes, char out[24])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    unsigned unit = 0;
    if (c->bytes) {
        snprintf(out, 24, "%llu", (unsigned long long)bytes);
        return out;
    }
    for (; value >= 999.5 && unit < 6; unit++)
        value /= 1024;
    snprintf(out, 24, "%.*f %s", unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2, value, units[unit]);
    return out;
}

char *sfs_ui_time(int64_t unix_seconds, char out[32])
{
    time_t t = (time_t)unix_seconds;
    struct tm tm;
    if (unix_seconds == 0 || !localtime_r(&t, &tm) || !strftime(out, 32, "%Y-%m-%d %H:%M:%S", &tm))
        snprintf(out, 32, "-");
    return out;
}

char *sfs_ui_duration(uint64_t s, char out[32])
{
    unsigned long long v = s;
    if (v < 60)
        snprintf(out, 32, "%llu s", v);
    else if (v >= 600 && v < 3600)
        snprintf(out, 32, "%llu min", v / 60);
    else if (v < 3600)
        snprintf(out, 32, "%llu min %llu s", v / 60, v % 60);
    else if (v < 86400)
        snprintf(out, 32, "%llu h %llu min", v / 3600, v % 3600 / 60);
    else
        snprintf(out, 32, "%llu d %llu h", v / 86400, v % 86400 / 3600);
    return out;
}

unsigned sfs_ui_percent(uint64_t done, uint64_t total)
{
    if (done >= total)
        return 100;
    return (unsigned)((double)done * 100.0 / (double)total);
}

char *sfs_ui_bar(uint64_t done, uint64_t total, unsigned width, char *out, size_t cap)
{
    unsigned full = (unsigned)((double)sfs_ui_percent(done, total) * width / 100.0);
    size_t n = 0;
    out[0] = '\0';
    n += (size_t)snprintf(out, cap, "[");
    for (unsigned i = 0; i < width && n + 5 < cap; i++)
        n += (size_t)snprintf(out + n, cap - n, "%s",
                              i < full ? utf8 ? "\u2588" : "#"
                              : utf8   ? "\u2591"
                                       : ".");
    snprintf(out + n, cap - n, "]");
    return out;
}

#define LINE_COLUMNS 80u

void sfs_ui_wrap(const char *text, unsigned at, unsigned indent)
{
    unsigned columns = sfs_ui_columns(stdout);
    wrap(stdout, text, at, indent, columns && columns < LINE_COLUMNS ? columns : LINE_COLUMNS);
}
