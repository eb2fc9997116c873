/* Extents that contradict each other: two contents for one place in a slab group. At most one is right, and its checksums tell. The catalog alone can't: the pool is opened to read them, then those that are not good are given up. */
#include "fs/check/check_impl.h"

#include <stdlib.h>
#include <string.h>
#include "fs/data/data.h"

#define MAX_ROUNDS 16u /* clones of what contradicts something come up one after the other */

static bool reads_well(struct sfs_data *d, const struct sfs_check_extent *x)
{
    struct sfs_catalog *cat = sfs_data_catalog(d);
    struct sfs_extent_row row;
    struct sfs_read r = {.from = 0};
    unsigned n = 0;
    uint64_t token = sfs_quiesce_enter(sfs_data_quiesce(d));
    sfs_catalog_lock(cat);
    int rc = sfs_catalog_extent_list(cat, x->ino, x->off, &row, 1, &n);
    if (!rc && n == 1 && row.off == x->off)
        rc = sfs_extent_from_row(d, &row, &r.extent);
    sfs_catalog_unlock(cat);
    if (!rc && r.extent.stored) {
        r.len = r.extent.len;
        r.out = malloc(r.len);
        rc = r.out && sfs_data_read(d, &r, 1) == 0 ? 0 : r.out ? r.result : -ENOMEM;
        sfs_stored_unref(d, r.extent.stored);
        free(r.out);
    }
    sfs_quiesce_exit(sfs_data_quiesce(d), token);
    return rc != -EIO;
}

/* Of c->shared those that have no good bytes stay. */
static int judge(struct sfs_check *c, const char *which)
{
    struct sfs_pool *pool = NULL;
    unsigned bad = 0;
    int rc = sfs_check_open_pool(c, which, true, &pool);
    if (rc)
        return rc;
    for (unsigned i = 0; i < c->nshared; i++)
        if (!reads_well(sfs_pool_data(pool), &c->shared[i]))
            c->shared[bad++] = c->shared[i];
    c->nshared = bad;
    sfs_pool_close(pool);
    return 0;
}

/* Gives up what was judged bad; looks again what is left. */
static int give_up(struct sfs_check *c, uint64_t *left)
{
    int rc = sfs_check_reopen(c);
    for (unsigned i = 0; !rc && i < c->nshared; i++)
        rc = sfs_audit_lose(c->audit, c->shared[i].ino, c->shared[i].off);
    c->nshared = 0;
    if (!rc)
        rc = sfs_audit_find(c->audit, SFS_FAULT_EXTENT_SHARED, left);
    if (!rc)
        rc = sfs_check_take_shared(c);
    if (!rc)
        rc = sfs_audit_commit(c->audit);
    sfs_check_close(c);
    return rc;
}

static void take(void *ctx, const struct sfs_audit_item *item)
{
    struct sfs_check *c = ctx;
    struct sfs_check_extent *v = realloc(c->shared, (c->nshared + 1) * sizeof(*v));
    if (!v)
        return; /* comes up in the next round */
    c->shared = v;
    v[c->nshared++] = (struct sfs_check_extent){(uint64_t)item->a, (uint64_t)item->b};
}

int sfs_check_take_shared(struct sfs_check *c)
{
    return sfs_audit_each(c->audit, UINT32_MAX, take, c);
}

int sfs_check_settle_shared(struct sfs_check *c, const char *which)
{
    const struct sfs_check_words *w = &sfs_check_words[SFS_FAULT_EXTENT_SHARED];
    struct sfs_check_problem p = {.id = w->id, .what = w->what, .repair = w->repair, .severity = w->severity, .count = c->nshared};
    uint64_t left = c->nshared;
    int rc = 0;
    for (unsigned i = 0; i < c->ndisks; i++)
        if (!c->disks[i].present) {
            sfs_check_note(c, "Which of them are right can't be told while disk %s is missing.", c->disks[i].name);
            sfs_check_settle(c, &p, SFS_OUTCOME_LEFT);
            return 0;
        }
    for (unsigned round = 0; !rc && left && round < MAX_ROUNDS; round++) {
        rc = judge(c, which);
        if (!rc && !c->nshared)
            break; /* all are good: they agree after all */
        if (!rc)
            rc = give_up(c, &left);
    }
    if (!rc)
        sfs_check_settle(c, &p, left ? SFS_OUTCOME_LEFT : SFS_OUTCOME_MENDED);
    return rc;
}
