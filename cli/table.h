/* Aligned tables: column widths follow the contents; a column in which every cell says the same unremarkable
 * thing is left out.
 *
 * On a terminal a table keeps to its width: columns that may go (SFS_FIT_DROP) go, the last of them first; names
 * and paths are cut (SFS_FIT_CUT_END, SFS_FIT_CUT_BEGIN); text of the last column goes on in further lines
 * (SFS_FIT_WRAP). Elsewhere everything is there, a row a line. */
#ifndef SFS_CLI_TABLE_H
#define SFS_CLI_TABLE_H

#include "cli/ui.h"

#define SFS_TABLE_MAX_COLUMNS 16u

enum sfs_fit { SFS_FIT_KEEP, SFS_FIT_DROP, SFS_FIT_CUT_END, SFS_FIT_CUT_BEGIN, SFS_FIT_WRAP };

struct sfs_column {
    const char *title;
    bool right;       /* aligned to the right: numbers */
    const char *hide; /* leave the column out when every cell equals this; NULL: never */
    enum sfs_fit fit;
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
