#include "fs/check/snapshots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fs/check/check_impl.h"

#define LISTED 32u /* of one kind on one disk */

static int add(struct sfs_check_snapshot **v, unsigned *n, const struct sfs_store *s, const struct sfs_snapshot *snap)
{
    struct sfs_check_snapshot *more = realloc(*v, (*n + 1) * sizeof(**v));
    if (!more)
        return -ENOMEM;
    *v = more;
    struct sfs_check_snapshot *out = &more[(*n)++];
    *out = (struct sfs_check_snapshot){.time = snap->time, .commit_seq = snap->commit_seq, .good = sfs_snapshot_verify(s, snap->name) == 0};
    memcpy(out->name, snap->name, sizeof(out->name));
    snprintf(out->disk, sizeof(out->disk), "%s", s->name);
    return 0;
}

static int list(struct sfs_check *c, struct sfs_check_snapshot **v, unsigned *n)
{
    static const char *const prefixes[] = {SFS_SNAPSHOT_HOURLY, SFS_SNAPSHOT_SAVED};
    struct sfs_store stores[SFS_LABEL_PEERS];
    unsigned nstores = sfs_check_stores(c, false, stores);
    for (unsigned k = 0; k < 2; k++)
        for (unsigned i = 0; i < nstores; i++) {
            struct sfs_snapshot found[LISTED];
            unsigned nfound = 0;
            if (sfs_snapshot_list(&stores[i], prefixes[k], found, LISTED, &nfound))
                continue;
            for (unsigned f = 0; f < nfound; f++) {
                int rc = add(v, n, &stores[i], &found[f]);
                if (rc)
                    return rc;
            }
        }
    return 0;
}

int sfs_check_snapshots(struct sfs_env *env, const char *which, const struct sfs_check_opts *opts, struct sfs_check_snapshot **v, unsigned *n, struct sfs_error *err)
{
    static const struct sfs_check_ui silent;
    struct sfs_check_opts look = *opts;
    struct sfs_check_result result = {.found = 0};
    struct sfs_check *c = calloc(1, sizeof(*c));
    *v = NULL;
    *n = 0;
    if (!c)
        return sfs_error_set(err, -ENOMEM, "Out of memory.");
    look.mode = SFS_CHECK_LOOK;
    c->env = env;
    c->opts = &look;
    c->ui = &silent;
    c->result = &result;
    c->err = err;
    int rc = sfs_check_find_disks(c, which);
    if (!rc)
        rc = sfs_check_open_disks(c);
    if (!rc)
        rc = list(c, v, n);
    sfs_check_close_disks(c);
    sfs_discovery_free(&c->found);
    free(c);
    return rc;
}
