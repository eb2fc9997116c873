/* Pools known on this host: one file per pool, <state_dir>/pools/NAME, with the pool's uuid and where its
 * disks were last seen. A hint: labels decide. */
#ifndef SFS_POOL_REGISTRY_H
#define SFS_POOL_REGISTRY_H

#include "fs/base/uuid.h"
#include "fs/base/error.h"
#include "fs/disk/label.h"

struct sfs_registry_pool {
    char name[SFS_NAME_MAX + 1];
    struct sfs_uuid uuid;
    char (*paths)[SFS_PATH_BYTES];
    unsigned npaths;
};
/* state_dir: SFS_STATE_DIR in the environment, else /var/lib/spacesfs for root, $XDG_STATE_HOME/spacesfs or
 * ~/.local/state/spacesfs for others. out gets at most SFS_PATH_BYTES. */
int sfs_registry_state_dir(char *out, size_t cap);
/* Run-time directory for control sockets and locks: SFS_RUN_DIR, else /run/spacesfs, else
 * $XDG_RUNTIME_DIR/spacesfs or /tmp/spacesfs-UID (owned by the caller, mode 0700, else refused). Made if need
 * be. */
int sfs_registry_run_dir(char *out, size_t cap, struct sfs_error *err);
int sfs_registry_save(const char *state_dir, const struct sfs_registry_pool *p,
                      struct sfs_error *err); /* atomic */
int sfs_registry_load(const char *state_dir, const char *name,
                      struct sfs_registry_pool *out); /* -ENOENT; free with _free */
int sfs_registry_remove(const char *state_dir, const char *name);
int sfs_registry_each(const char *state_dir, int (*fn)(const struct sfs_registry_pool *, void *), void *ctx);
void sfs_registry_free(struct sfs_registry_pool *p); /* its arrays, not p */

#endif
