/* Changing how a space is laid out while it is in use, and making the layout of a pool as good as it can be: the settings change at once, jobs move what is there (fs/job/convert.h).
 *
 *   convert    space=N   groups of the space that are laid out otherwise than its settings say
 *   optimize             the same for all spaces, groups that are narrower than new ones would be, files that lie scattered or are compressed otherwise than set, and an even spread of slabs
 *
 * Nothing but the settings has to be remembered: which groups are left follows from them. */
#include "fs/pool/pool_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/size.h"
#include "fs/data/outdated.h"
#include "fs/job/convert.h"
#include "fs/job/defrag.h"
#include "fs/job/evacuate.h"

#define SPACES_MAX 256u

static int space_of(struct sfs_job *j)
{
    uint64_t n = sfs_job_number(sfs_job_what(j), "space");
    return n <= INT32_MAX ? (int)n : 0;
}

int sfs_pool_run_convert(struct sfs_job *j, void *ctx)
{
    struct sfs_pool *p = ctx;
    struct sfs_volume *v = sfs_volume_find(p->data, space_of(j));
    struct sfs_space_row row;
    if (!space_of(j) || !v) {
        sfs_job_says(j, "the space has been destroyed");
        return 0;
    }
    int rc = sfs_convert(j, space_of(j), false);
    if (rc)
        return rc;
    sfs_volume_settings(v, &row);
    sfs_job_says(j, "all of space %s is laid out as its settings say (%s), read back and compared", row.name, sfs_resiliency_name(row.resiliency));
    return 0;
}

static int defragment_all(struct sfs_job *j, struct sfs_pool *p, struct sfs_defragmented *done)
{
    int ids[SPACES_MAX], rc = 0;
    unsigned n = sfs_volume_ids(p->data, ids, SPACES_MAX);
    for (unsigned i = 0; !rc && i < n; i++)
        rc = sfs_defragment(j, ids[i], done);
    return rc;
}

int sfs_pool_run_optimize(struct sfs_job *j, void *ctx)
{
    struct sfs_defragmented done = {0};
    char size[16];
    int rc = sfs_convert(j, 0, true);
    if (!rc)
        rc = defragment_all(j, ctx, &done);
    if (rc == -ENOSPC)
        sfs_job_says(j, "there is no room to store scattered files anew. Add a disk or free space");
    if (!rc)
        rc = sfs_rebalance(j);
    if (rc)
        return rc;
    if (done.unmounted)
        sfs_job_says(j, "everything is laid out as the settings say, over all disks; %s of %llu files that lay scattered, or were compressed otherwise, were stored anew. Files of %u spaces that aren't mounted were left as they are", sfs_size_format(done.bytes, size),
                     (unsigned long long)done.files, done.unmounted);
    else
        sfs_job_says(j, "everything is laid out as the settings say, over all disks; %s of %llu files that lay scattered, or were compressed otherwise, were stored anew", sfs_size_format(done.bytes, size), (unsigned long long)done.files);
    return 0;
}

/* Lock `admin` held. Could the space be converted to `row`? 0, or refused with the numbers. */
int sfs_pool_check_conversion(struct sfs_pool *p, const struct sfs_space_row *row, struct sfs_error *err)
{
    struct sfs_conversion c;
    char held[16], raw[16], now[16], back[16];
    int rc = sfs_conversion_check(p->data, row, &c);
    if (rc != -ENOSPC)
        return rc;
    return sfs_error_set(err, rc, "space %s/%s holds %s; as %s that takes about %s on the disks. %s are free there now, and %s would come free as it is converted, which isn't enough, or not on enough different disks. "
                         "Add a disk (`spacesfs disk add`) or delete something first.", p->name, row->name, sfs_size_format(c.held_bytes, held), sfs_resiliency_name(row->resiliency), sfs_size_format(c.raw_bytes, raw),
                         sfs_size_format(c.free_raw_bytes, now), sfs_size_format(c.back_raw_bytes, back));
}

struct setting {
    struct sfs_pool *p;
    struct sfs_space_row *row;
};

/* Catalog locked. The job isn't at work yet: it finds the settings that it is for. */
static int put_settings(void *ctx)
{
    struct setting *x = ctx;
    int rc = sfs_catalog_space_put(x->p->cat, x->row);
    if (!rc)
        sfs_volume_update(x->p->data, x->row);
    return rc;
}

static bool anything_outdated(struct sfs_pool *p, int space)
{
    struct sfs_outdated *v;
    unsigned n;
    if (sfs_outdated_list(p->data, space, false, &v, &n))
        return true; /* the job will see */
    free(v);
    return n > 0;
}

/* What is written while the settings change may be outdated though nothing was before: so it is looked once more. */
int sfs_pool_convert(struct sfs_pool *p, struct sfs_space_row *row, uint64_t *job, struct sfs_error *err)
{
    struct setting x = {p, row};
    char what[32];
    snprintf(what, sizeof(what), "space=%d", row->id);
    int rc = -EALREADY;
    if (sfs_outdated_by(p->data, row))
        rc = sfs_job_begin_with(p->jobs, "convert", what, put_settings, &x, job, err);
    if (rc != -EALREADY) /* begun; or refused, and nothing has changed */
        return rc;
    *job = 0;
    *err = (struct sfs_error){0};
    rc = sfs_pool_store_space(p, row);
    if (rc || !anything_outdated(p, row->id))
        return rc;
    rc = sfs_job_begin(p->jobs, "convert", what, job, err);
    if (rc != -EALREADY)
        return rc;
    *err = (struct sfs_error){0}; /* one that is at it takes what has been set meanwhile */
    return 0;
}

int sfs_pool_optimize(struct sfs_pool *p, uint64_t *job, struct sfs_error *err)
{
    int rc = sfs_pool_writable(p, err);
    return rc ? rc : sfs_job_begin(p->jobs, "optimize", "pool", job, err);
}
