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

static void print_row(const struct sfs_table *t, FILE *out, unsigned indent, const unsigned *widths,
                      unsigned last, const struct cell *row)
{
    unsigned pad = indent; /* blanks owed before the next text; none are left at the end of a line */
    for (unsigned i = 0; i <= last; i++) {
        if (!widths[i])
            continue;
        const char *text = row ? row[i].text : t->columns[i].title;
        enum sfs_tone tone = row ? row[i].tone : SFS_TONE_BOLD;
        unsigned blank = widths[i] - sfs_ui_width(text);
        if (t->columns[i].right)
            pad += blank;
        if (*text)
            fprintf(out, "%*s%s%s%s", (int)pad, "", sfs_ui_tone(out, tone), text, sfs_ui_tone_end(out, tone));
        pad = (*text ? 0 : pad) + (t->columns[i].right ? 0 : blank) + 2;
    }
    fputc('\n', out);
}

void sfs_table_print(const struct sfs_table *t, FILE *out, unsigned indent)
{
    unsigned widths[SFS_TABLE_MAX_COLUMNS], last = 0;
    for (unsigned i = 0; i < t->ncolumns; i++) {
        widths[i] = column_width(t, i);
        if (widths[i])
            last = i;
    }
    print_row(t, out, indent, widths, last, NULL);
    for (size_t i = 0; i + t->ncolumns <= t->ncells; i += t->ncolumns)
        print_row(t, out, indent, widths, last, &t->cells[i]);
}
