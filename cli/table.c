#include "cli/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct cell {
    char *text;
    enum sfs_tone tone;
};

struct sfs_table {
    const struct sfs_column *columns;
    unsigned ncolumns;
    struct cell *cells;
    size_t ncells, cap;
};

struct sfs_table *sfs_table_new(const struct sfs_column *columns, unsigned n)
{
    struct sfs_table *t = calloc(1, sizeof(*t));
    if (!t)
        sfs_ui_out_of_memory();
    t->columns = columns;
    t->ncolumns = n < SFS_TABLE_MAX_COLUMNS ? n : SFS_TABLE_MAX_COLUMNS;
    return t;
}

void sfs_table_free(struct sfs_table *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->ncells; i++)
        free(t->cells[i].text);
    free(t->cells);
    free(t);
}

void sfs_table_cell(struct sfs_table *t, enum sfs_tone tone, const char *fmt, ...)
{
    char text[1024], clean[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (t->ncells == t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 64;
        struct cell *more = realloc(t->cells, cap * sizeof(*more));
        if (!more)
            sfs_ui_out_of_memory();
        t->cells = more;
        t->cap = cap;
    }
    struct cell *cell = &t->cells[t->ncells];
    cell->text = strdup(sfs_ui_clean(text, clean, sizeof(clean)));
    if (!cell->text)
        sfs_ui_out_of_memory();
    cell->tone = tone;
    t->ncells++;
}

unsigned sfs_table_rows(const struct sfs_table *t)
{
    return (unsigned)(t->ncells / t->ncolumns);
}

/* 0: the column is left out. */
static unsigned column_width(const struct sfs_table *t, unsigned column)
{
    const struct sfs_column *k = &t->columns[column];
    unsigned width = sfs_ui_width(k->title);
    bool remarkable = !k->hide;
    for (size_t i = column; i < t->ncells; i += t->ncolumns) {
        unsigned w = sfs_ui_width(t->cells[i].text);
        width = w > width ? w : width;
        if (k->hide && strcmp(t->cells[i].text, k->hide) != 0)
            remarkable = true;
    }
    return remarkable ? width : 0;
}

/* --- fitting ---------------------------------------------------------------------------------------------- */
#define LEAST_CUT 8u   /* a name or path that is cut keeps so many columns */
#define LEAST_WRAP 24u /* a text that goes on in further lines gets so many, or begins on a line of its own */

static unsigned total_width(const struct sfs_table *t, const unsigned *widths, unsigned indent)
{
    unsigned total = indent, n = 0;
    for (unsigned i = 0; i < t->ncolumns; i++) {
        total += widths[i];
        n += widths[i] > 0;
    }
    return n ? total + 2 * (n - 1) : total;
}

/* Makes columns of one kind narrower, one after the other from the right, until the table fits. */
static void narrow(const struct sfs_table *t, unsigned *widths, unsigned indent, unsigned limit, enum sfs_fit fit)
{
    for (unsigned i = t->ncolumns; i-- > 0;) {
        unsigned total = total_width(t, widths, indent);
        if (total <= limit)
            return;
        if (t->columns[i].fit != fit || !widths[i])
            continue;
        unsigned over = total - limit, least = fit == SFS_FIT_DROP   ? 0
                                               : fit == SFS_FIT_WRAP ? LEAST_WRAP
                                                                     : LEAST_CUT;
        if (fit == SFS_FIT_DROP)
            widths[i] = 0;
        else if (widths[i] > least)
            widths[i] = widths[i] - least > over ? widths[i] - over : least;
    }
}

static void fit(const struct sfs_table *t, unsigned *widths, unsigned indent, unsigned limit)
{
    static const enum sfs_fit order[] = {SFS_FIT_WRAP, SFS_FIT_DROP, SFS_FIT_CUT_END, SFS_FIT_CUT_BEGIN};
    unsigned most = 0;
    for (unsigned i = 0; i < t->ncolumns; i++)
        if (t->columns[i].fit == SFS_FIT_CUT_BEGIN || t->columns[i].fit == SFS_FIT_WRAP)
            most = i;
    /* Better a column less than a path of which nothing can be read. */
    if (most && t->columns[most].fit == SFS_FIT_CUT_BEGIN && widths[most] > 2 * LEAST_CUT) {
        unsigned whole = widths[most];
        widths[most] = 2 * LEAST_CUT;
        narrow(t, widths, indent, limit, SFS_FIT_DROP);
        unsigned total = total_width(t, widths, indent), room = limit > total ? limit - total : 0;
        widths[most] = widths[most] + room < whole ? widths[most] + room : whole;
    }
    for (unsigned i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        narrow(t, widths, indent, limit, order[i]);
}

/* A cell's text in so many columns; what is cut off shows as an ellipsis. */
static const char *cut(const char *text, unsigned width, enum sfs_fit how, char *out, size_t cap)
{
    const char *dots = sfs_ui_has_utf8() ? "\u2026" : "~";
    if (sfs_ui_width(text) <= width || (how != SFS_FIT_CUT_END && how != SFS_FIT_CUT_BEGIN))
        return text;
    if (how == SFS_FIT_CUT_END) {
        snprintf(out, cap, "%.*s%s", (int)sfs_ui_fit(text, width - 1), text, dots);
        return out;
    }
    while (*text && sfs_ui_width(text) > width - 1) {
        size_t step = sfs_ui_fit(text, 1);
        if (!step)
            step = sfs_ui_fit(text, 2); /* a wide character */
        text += step ? step : 1;
    }
    snprintf(out, cap, "%s%s", dots, text);
    return out;
}

/* The text of a last column, in lines of so many columns that begin in column `at`. */
static void print_wrapped(FILE *out, const char *text, unsigned at, unsigned width)
{
    bool first = true;
    while (*text) {
        size_t len = sfs_ui_fit(text, width), end = len;
        if (text[len] && text[len] != ' ') {
            while (end > 0 && text[end] != ' ')
                end--;
            end = end ? end : len ? len : 1;
        }
        if (!first)
            fprintf(out, "\n%*s", (int)at, "");
        fprintf(out, "%.*s", (int)end, text);
        text += end;
        while (*text == ' ')
            text++;
        first = false;
    }
}

/* --- printing --------------------------------------------------------------------------------------------- */
static void print_row(const struct sfs_table *t, FILE *out, unsigned indent, const unsigned *widths,
                      unsigned last, const struct cell *row)
{
    unsigned pad = indent; /* blanks owed before the next text; none are left at the end of a line */
    unsigned at = indent;  /* column in which this one begins */
    for (unsigned i = 0; i <= last; i++) {
        char buf[1100];
        if (!widths[i])
            continue;
        const char *text = row ? row[i].text : t->columns[i].title;
        enum sfs_tone tone = row ? row[i].tone : SFS_TONE_BOLD;
        bool wraps = i == last && row && t->columns[i].fit == SFS_FIT_WRAP;
        if (!wraps)
            text = cut(text, widths[i], t->columns[i].fit, buf, sizeof(buf));
        unsigned width = sfs_ui_width(text), blank = widths[i] > width ? widths[i] - width : 0;
        if (t->columns[i].right)
            pad += blank;
        if (*text) {
            fprintf(out, "%*s%s", (int)pad, "", sfs_ui_tone(out, tone));
            if (wraps)
                print_wrapped(out, text, at, widths[i]);
            else
                fputs(text, out);
            fputs(sfs_ui_tone_end(out, tone), out);
        }
        pad = (*text ? 0 : pad) + (t->columns[i].right ? 0 : blank) + 2;
        at += widths[i] + 2;
    }
    fputc('\n', out);
}

void sfs_table_print(const struct sfs_table *t, FILE *out, unsigned indent)
{
    unsigned widths[SFS_TABLE_MAX_COLUMNS], last = 0, limit = sfs_ui_columns(out);
    for (unsigned i = 0; i < t->ncolumns; i++)
        widths[i] = column_width(t, i);
    if (limit)
        fit(t, widths, indent, limit);
    for (unsigned i = 0; i < t->ncolumns; i++)
        last = widths[i] ? i : last;
    print_row(t, out, indent, widths, last, NULL);
    for (size_t i = 0; i + t->ncolumns <= t->ncells; i += t->ncolumns)
        print_row(t, out, indent, widths, last, &t->cells[i]);
}
