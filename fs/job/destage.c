#include "fs/job/destage.h"

#include <stdlib.h>

#include "fs/data/relocate.h"

enum sfs_destage_need sfs_destage_need(const struct sfs_landing *l)
{
    if (l->used_bytes < l->stripe_bytes)
        return SFS_DESTAGE_NOTHING;
    return l->used_bytes > l->capacity_bytes / 2 || l->groups > l->max ? SFS_DESTAGE_NOW : SFS_DESTAGE_WHEN_IDLE;
}

int sfs_destage(struct sfs_destaging *s, int space)
{
    uint64_t *ids;
    unsigned n;
    s->moved_bytes = 0;
    int rc = sfs_landing_groups(s->d, space, &ids, &n);
    for (unsigned i = 0; !rc && i < n; i++) {
        struct sfs_relocate_result r;
        rc = sfs_relocate_group(s->d, ids[i], SFS_RELOCATE_WHOLE_STRIPES, s->progress, s->ctx, &r);
        s->moved_bytes += r.bytes;
        if (rc == -ENOENT || rc == -EBUSY || rc == -EAGAIN) /* gone, or somebody else is at it */
            rc = 0;
    }
    free(ids);
    return rc;
}
