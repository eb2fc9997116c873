/* The list is made anew until it is empty, or nothing more can be done: groups that fill up, settings that change again and disks that come and go meanwhile are seen, and a job that was cut short finds what is left. */
#include "fs/job/convert.h"

#include <stdlib.h>
#include <string.h>

#include "fs/base/size.h"
#include "fs/data/outdated.h"
#include "fs/data/relocate.h"

#define STEP_BYTES (1u << 20)
#define IDLE_ROUNDS 8u /* rounds in which nothing is moved and nothing fails: what is written meanwhile is in the way */

struct conversion {
    struct sfs_job *j;
    struct sfs_data *d;
    struct sfs_pace pace;
    uint64_t damaged, moved;   /* of this round */
    int why;                   /* the first failure of this round */
    uint64_t where;
};

static int progress(void *ctx, uint64_t bytes)
{
    struct conversion *c = ctx;
    int stop = sfs_job_progress(c->j, bytes);
    for (uint64_t step; !stop && bytes; bytes -= step) { /* one step rests for a while at most */
        step = bytes < STEP_BYTES ? bytes : STEP_BYTES;
        sfs_throttle_step(sfs_job_throttle(c->j), &c->pace, step);
        stop = sfs_job_stopping(c->j);
    }
    return stop;
}

static void move(struct conversion *c, uint64_t group)
{
    struct sfs_relocate_result r;
    int rc = sfs_relocate_group(c->d, group, 0, progress, c, &r);
    c->moved += r.bytes + r.emptied;
    c->damaged += r.damaged_bytes;
    if (rc && rc != -ENOENT && !c->why) {
        c->why = rc;
        c->where = group;
    }
}

static int round_of(struct conversion *c, const struct sfs_outdated *v, unsigned n)
{
    uint64_t left = 0;
    for (unsigned i = 0; i < n; i++)
        left += v[i].used_bytes;
    sfs_job_left(c->j, left);
    c->damaged = c->moved = 0;
    c->why = 0;
    for (unsigned i = 0; i < n; i++) {
        if (sfs_job_stopping(c->j))
            return -ECANCELED;
        move(c, v[i].group);
        if (c->why == -ECANCELED || c->why == -EROFS)
            return c->why;
    }
    return 0;
}

static int blocked(struct conversion *c, unsigned groups)
{
    char size[16];
    const char *are = groups == 1 ? " is" : "s are";
    if (c->why == -ENOSPC) {
        sfs_job_says(c->j, "%u slab group%s left: there is no room for more in the new layout. Add a disk or free space", groups, are);
        return c->why;
    }
    if (c->why) {
        sfs_job_says(c->j, "%u slab group%s left: slab group %llu: %s", groups, are, (unsigned long long)c->where, strerror(-c->why));
        return c->why;
    }
    if (c->damaged) {
        sfs_job_says(c->j, "%s cannot be read from any disk that is here, and stays in the old layout. Connect disks that are away, or see `spacesfs damage`", sfs_size_format(c->damaged, size));
        return -EINVAL;
    }
    sfs_job_says(c->j, "%u slab group%s left, in use just now", groups, are);
    return -EAGAIN;
}

int sfs_convert(struct sfs_job *j, int space, bool wider)
{
    struct conversion c = {.j = j, .d = sfs_job_data(j)};
    int rc = sfs_groups_count_used(c.d);
    for (unsigned idle = 0; !rc;) {
        struct sfs_outdated *v;
        unsigned n;
        rc = sfs_outdated_list(c.d, space, wider, &v, &n);
        if (rc)
            break;
        if (n)
            rc = round_of(&c, v, n);
        free(v);
        if (!n || rc)
            break;
        idle = c.moved ? 0 : idle + 1;
        if (!c.moved && (c.why || c.damaged || idle == IDLE_ROUNDS))
            rc = blocked(&c, n);
    }
    return rc;
}
