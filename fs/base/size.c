/* Sizes, durations and names as people write them. */
#include "fs/base/size.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit size_units[] = {
    {"", 1},
    {"B", 1},
    {"K", 1ull << 10},
    {"KiB", 1ull << 10},
    {"KB", 1000ull},
    {"M", 1ull << 20},
    {"MiB", 1ull << 20},
    {"MB", 1000000ull},
    {"G", 1ull << 30},
    {"GiB", 1ull << 30},
    {"GB", 1000000000ull},
    {"T", 1ull << 40},
    {"TiB", 1ull << 40},
    {"TB", 1000000000000ull},
    {"P", 1ull << 50},
    {"PiB", 1ull << 50},
    {"PB", 1000000000000000ull},
    {"E", 1ull << 60},
    {"EiB", 1ull << 60},
    {"EB", 1000000000000000000ull},
    {NULL, 0},
};

#define SECOND_NS 1000000000ull
static const struct unit duration_units[] = {
    {"", SECOND_NS},
    {"s", SECOND_NS},
    {"ms", SECOND_NS / 1000},
    {"m", 60 * SECOND_NS},
    {"min", 60 * SECOND_NS},
    {"h", 3600 * SECOND_NS},
    {"d", 86400 * SECOND_NS},
    {"w", 7 * 86400 * SECOND_NS},
    {NULL, 0},
};

static const struct unit *find_unit(const struct unit *units, const char *name)
{
    for (; units->name; units++) {
        if (strcasecmp(units->name, name) == 0)
            return units;
    }
    return NULL;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "12.5 GiB" in terms of units, rounded down. 0, -EINVAL or -ERANGE. */
static int parse_scaled(const char *text, const struct unit *units, uint64_t *out)
{
    unsigned __int128 whole = 0, fraction = 0, value;
    uint64_t fraction_unit = 1;
    bool has_fraction = false;
    const struct unit *u;
    const char *p = text;

    if (!is_digit(*p))
        return -EINVAL;
    for (; is_digit(*p); p++) {
        if (whole <= UINT64_MAX) /* beyond it is too much in any unit */
            whole = whole * 10 + (unsigned)(*p - '0');
    }
    if (*p == '.') {
        p++;
        if (!is_digit(*p))
            return -EINVAL;
        has_fraction = true;
        for (; is_digit(*p); p++) {
            if (fraction_unit < 1000000000000000000ull) { /* later digits are less than a byte */
                fraction = fraction * 10 + (unsigned)(*p - '0');
                fraction_unit *= 10;
            }
        }
    }
    while (*p == ' ')
        p++;
    u = find_unit(units, p);
    if (!u || (has_fraction && u->factor == 1))
        return -EINVAL;
    if (whole > (uint64_t)INT64_MAX)
        return -ERANGE;
    value = whole * u->factor + fraction * u->factor / fraction_unit;
    if (value > (uint64_t)INT64_MAX)
        return -ERANGE;
    *out = (uint64_t)value;
    return 0;
}

int sfs_size_parse(const char *text, const char *what, uint64_t *out, struct sfs_error *err)
{
    int rc = parse_scaled(text, size_units, out);

    if (rc == -ERANGE)
        return sfs_error_set(err, rc, "%s: \"%.64s\" is too large (the largest size is 7.99 EiB)", what,
                             text);
    if (rc < 0)
        return sfs_error_set(err, rc,
                             "%s: \"%.64s\" is not a size. Write a number of bytes, or a number with a unit, "
                             "as in 512M, 10G, 1.5T (powers of 1024) or 500GB (powers of 1000)",
                             what, text);
    return 0;
}

int sfs_duration_parse(const char *text, const char *what, uint64_t *out_ns, struct sfs_error *err)
{
    int rc = parse_scaled(text, duration_units, out_ns);

    if (rc == -ERANGE)
        return sfs_error_set(err, rc, "%s: \"%.64s\" is too long (at most 292 years)", what, text);
    if (rc < 0)
        return sfs_error_set(err, rc,
                             "%s: \"%.64s\" is not a duration. Write a number of seconds, or a number with "
                             "a unit, as in 500ms, 30s, 5m, 1h, 2d",
                             what, text);
    return 0;
}

char *sfs_size_format(uint64_t bytes, char out[16])
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned u = 0;
    uint64_t hundredths;

    if (bytes < 1024) {
        snprintf(out, 16, "%u B", (unsigned)bytes);
        return out;
    }
    do {
        u++;
        hundredths = (uint64_t)((((unsigned __int128)bytes * 100 >> (10 * u - 1)) + 1) >> 1); /* rounded */
    } while (hundredths >= 102400 && u < 6);
    snprintf(out, 16, "%u.%02u %s", (unsigned)(hundredths / 100), (unsigned)(hundredths % 100), names[u]);
    return out;
}

/* Length of the valid UTF-8 sequence at p that stands for a printable character beyond ASCII; 0 if there is
 * none. */
static size_t utf8_length(const unsigned char *p)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc0 ? 2 : 0;
    uint32_t c = p[0] & (0x7fu >> n);

    if (n == 0 || p[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) /* ends at a NUL, too */
            return 0;
        c = c << 6 | (p[i] & 0x3fu);
    }
    if (c < smallest[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    return c < 0xa0 ? 0 : n; /* control characters */
}

static bool is_name_char(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit((char)c) || (c && strchr("-_.+", c));
}

int sfs_name_check(const char *text, const char *what, struct sfs_error *err)
{
    const unsigned char *p = (const unsigned char *)text;

    if (!*p)
        return sfs_error_set(err, -EINVAL, "%s is empty", what);
    if (strlen(text) > 64)
        return sfs_error_set(err, -EINVAL, "%s is too long: %zu bytes, at most 64 are allowed", what,
                             strlen(text));
    if (*p == '-' || *p == '.')
        return sfs_error_set(err, -EINVAL, "%s \"%s\" begins with \"%c\", which isn't allowed", what, text,
                             *p);
    while (*p) {
        size_t n = *p < 0x80 ? is_name_char(*p) : utf8_length(p);

        if (n == 0) {
            if (*p > 0x20 && *p < 0x7f)
                return sfs_error_set(err, -EINVAL,
                                     "%s \"%s\" contains \"%c\". Letters, digits and - _ . + are allowed",
                                     what, text, *p);
            /* The text isn't shown: it isn't fit for a terminal. */
            return sfs_error_set(err, -EINVAL, "%s contains %s. Letters, digits and - _ . + are allowed",
                                 what,
                                 *p == ' '   ? "a space"
                                 : *p < 0x80 ? "a control character"
                                             : "bytes that are not valid text");
        }
        p += n;
    }
    return 0;
}
