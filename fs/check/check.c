/* The order of things: disks and their labels; the catalog's copies; the catalog; the data. Each step relies on those before it. */
#include "fs/check/check_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sfs_check_note(struct sfs_check *c, const char *fmt, ...)
{
    char text[1400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (c->ui->note)
        c->ui->note(c->ui->ctx, text);
}

void sfs_check_progress(struct sfs_check *c, const char *what, uint64_t done, uint64_t total)
{
    if (c->ui->progress)
        c->ui->progress(c->ui->ctx, what, done, total);
}

bool sfs_check_cancelled(struct sfs_check *c)
{
    if (!c->ui->cancelled || !c->ui->cancelled(c->ui->ctx))
        return false;
    c->result->status |= SFS_CHECK_CANCELLED;
    return true;
}

bool sfs_check_allowed(struct sfs_check *c, const struct sfs_check_problem *p)
{
    switch (c->opts->mode) {
    case SFS_CHECK_LOOK:
        return false;
    case SFS_CHECK_PREEN:
        return p->repair && p->severity == SFS_SEVERITY_SAFE;
    case SFS_CHECK_ALL:
        return p->repair != NULL;
    case SFS_CHECK_ASK:
        return p->repair && c->ui->ask(c->ui->ctx, p);
    }
    return false;
}

enum sfs_check_outcome sfs_check_unmended(const struct sfs_check *c)
{
    return sfs_check_writes(c) ? SFS_OUTCOME_LEFT : SFS_OUTCOME_FOUND;
}

void sfs_check_settle(struct sfs_check *c, const struct sfs_check_problem *p, enum sfs_check_outcome outcome)
{
    struct sfs_check_result *r = c->result;
    r->found += p->count;
    if (outcome == SFS_OUTCOME_MENDED)
        r->mended += p->count;
    else
        r->left += p->count;
    r->status |= outcome == SFS_OUTCOME_MENDED ? SFS_CHECK_MENDED : SFS_CHECK_LEFT;
    if (c->ui->problem)
        c->ui->problem(c->ui->ctx, p, outcome);
}

void sfs_check_close(struct sfs_check *c)
{
    sfs_audit_close(c->audit);
    c->audit = NULL;
    sfs_replicas_close(c->replicas);
    c->replicas = NULL;
    sfs_check_close_disks(c);
}

static int check(struct sfs_check *c, const char *which)
{
    int rc = sfs_check_find_disks(c, which);
    if (!rc)
        rc = sfs_check_open_disks(c);
    if (!rc)
        rc = sfs_check_open_replicas(c);
    if (!rc && c->opts->restore) { /* what is wrong in it is what a person wants back: it is left to the next run */
        sfs_check_note(c, "Check it before you use it: spacesfs-check --data %s. What was freed since then may have been written over.", c->result->pool);
        return 0;
    }
    if (!rc && c->replicas)
        rc = sfs_check_catalog(c);
    if (!rc && c->labels_dirty && sfs_check_writes(c)) {
        rc = sfs_check_write_labels(c, true);
        if (rc)
            sfs_error_set(c->err, rc, "Pool %s: its labels could not be written: %s.", c->result->pool, strerror(-rc));
    }
    bool whole = c->replicas != NULL;
    sfs_check_close(c); /* the data is read through the pool's own code, which locks the disks itself */
    if (!rc && whole && c->nshared)
        rc = sfs_check_settle_shared(c, which);
    if (!rc && whole && (c->opts->data || c->rolled_back) && !sfs_check_cancelled(c))
        rc = sfs_check_data(c, which);
    return rc;
}

unsigned sfs_check_run(struct sfs_env *env, const char *which, const struct sfs_check_opts *opts, const struct sfs_check_ui *ui, struct sfs_check_result *result, struct sfs_error *err)
{
    static const struct sfs_check_ui silent;
    struct sfs_error local = {0};
    *result = (struct sfs_check_result){0};
    struct sfs_check *c = calloc(1, sizeof(*c));
    if (!c) {
        sfs_error_set(err, -ENOMEM, "Out of memory.");
        return result->status = SFS_CHECK_FAILED;
    }
    c->env = env;
    c->opts = opts;
    c->ui = ui ? ui : &silent;
    c->result = result;
    c->err = err ? err : &local;
    int rc = check(c, which);
    if (rc && rc != -ECANCELED) {
        result->status |= SFS_CHECK_FAILED;
        if (!c->err->code)
            sfs_error_set(c->err, rc, "Pool %s could not be checked: %s.", result->pool[0] ? result->pool : which, strerror(-rc));
    }
    sfs_check_close(c);
    sfs_discovery_free(&c->found);
    free(c->shared);
    free(c);
    return result->status;
}
