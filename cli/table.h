/* Aligned tables: column widths follow the contents; a column in which every cell says the same unremarkable
 * thing is left out. */
#ifndef SFS_CLI_TABLE_H
#define SFS_CLI_TABLE_H

#include "cli/ui.h"

#define SFS_TABLE_MAX_COLUMNS 16u

struct sfs_column {
    const char *title;
    bool right;       /* aligned to the right: numbers */
    const char *hide; /* leave the column out when every cell equals this; NULL: never */
};
struct sfs_table;

struct sfs_table *sfs_table_new(const struct sfs_column *columns,
                                unsigned n); /* columns are kept by reference */
void sfs_table_free(struct sfs_table *t);
/* Cells come in order, row by row. */
void sfs_table_cell(struct sfs_table *t, enum sfs_tone tone, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
unsigned sfs_table_rows(const struct sfs_table *t);
void sfs_table_print(const struct sfs_table *t, FILE *out, unsigned indent);

#endif
