/* Jobs and events. */
#include "meta/catalog_impl.h"

#include <string.h>

int sfs_catalog_job_put(struct sfs_catalog *cat, struct sfs_job_row *row)
{
    const struct sfs_arg args[] = {SFS_TEXT(row->kind), SFS_TEXT(row->state),  SFS_TEXT(row->what),
                                   SFS_INT(row->done),  SFS_INT(row->total),   SFS_INT(row->started),
                                   SFS_INT(row->ended), SFS_TEXT(row->result), SFS_INT(row->id)};
    int rc = sfs_stmt_run(cat, row->id ? SFS_STMT_JOB_UPDATE : SFS_STMT_JOB_INSERT, args, row->id ? 9 : 8);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return -ENOENT;
    if (!row->id)
        row->id = (uint64_t)sqlite3_last_insert_rowid(cat->db);
    return 0;
}

static bool decode_job(sqlite3_stmt *st, struct sfs_job_row *row)
{
    bool ok = true;
    memset(row, 0, sizeof(*row));
    row->id = sfs_col_uint(st, 0, INT64_MAX, &ok);
    sfs_col_text(st, 1, row->kind, sizeof(row->kind), &ok);
    sfs_col_text(st, 2, row->state, sizeof(row->state), &ok);
    sfs_col_text(st, 3, row->what, sizeof(row->what), &ok);
    row->done = sfs_col_uint(st, 4, INT64_MAX, &ok);
    row->total = sfs_col_uint(st, 5, INT64_MAX, &ok);
    row->started = sfs_col_int(st, 6, &ok);
    row->ended = sfs_col_int(st, 7, &ok);
    sfs_col_text(st, 8, row->result, sizeof(row->result), &ok);
    return ok;
}

int sfs_catalog_job_each(struct sfs_catalog *cat, int (*fn)(const struct sfs_job_row *, void *), void *ctx)
{
    sqlite3_stmt *st;
    int rc = sfs_stmt_open(cat, SFS_STMT_JOB_EACH, SFS_NO_ARGS, &st);
    if (rc)
        return rc;
    while ((rc = sfs_stmt_step(cat, st)) > 0) {
        struct sfs_job_row row;
        rc = decode_job(st, &row) ? fn(&row, ctx) : -EUCLEAN;
        if (rc)
            break;
    }
    sfs_stmt_close(cat, SFS_STMT_JOB_EACH);
    return rc;
}

int sfs_catalog_event_add(struct sfs_catalog *cat, const struct sfs_event_row *row)
{
    int rc = sfs_stmt_run(cat, SFS_STMT_EVENT_INSERT,
                          SFS_ARGS(SFS_INT(row->time), SFS_TEXT(row->severity), SFS_TEXT(row->kind),
                                   SFS_TEXT(row->subject), SFS_TEXT(row->text)));
    if (rc >= 0)
        rc = sfs_stmt_run(cat, SFS_STMT_EVENT_TRIM, SFS_NO_ARGS);
    return rc < 0 ? rc : 0;
}

static bool decode_event(sqlite3_stmt *st, struct sfs_event_row *row)
{
    bool ok = true;
    memset(row, 0, sizeof(*row));
    row->id = sfs_col_uint(st, 0, INT64_MAX, &ok);
    row->time = sfs_col_int(st, 1, &ok);
    sfs_col_text(st, 2, row->severity, sizeof(row->severity), &ok);
    sfs_col_text(st, 3, row->kind, sizeof(row->kind), &ok);
    sfs_col_text(st, 4, row->subject, sizeof(row->subject), &ok);
    sfs_col_text(st, 5, row->text, sizeof(row->text), &ok);
    return ok;
}

int sfs_catalog_event_list(struct sfs_catalog *cat, uint64_t after_id, unsigned max,
                           int (*fn)(const struct sfs_event_row *, void *), void *ctx)
{
    sqlite3_stmt *st;
    int rc = sfs_stmt_open(cat, SFS_STMT_EVENT_LIST, SFS_ARGS(SFS_INT(after_id), SFS_INT(max)), &st);
    if (rc)
        return rc;
    while ((rc = sfs_stmt_step(cat, st)) > 0) {
        struct sfs_event_row row;
        rc = decode_event(st, &row) ? fn(&row, ctx) : -EUCLEAN;
        if (rc)
            break;
    }
    sfs_stmt_close(cat, SFS_STMT_EVENT_LIST);
    return rc;
}
