/* Inside the dir backend only: what dir.c (directory, label, lock), dir_slabs.c and dir_meta.c share.
 * The tree is not trusted: everything below .spacesfs is reached by openat with O_NOFOLLOW from a descriptor,
 * and must be a regular file. */
#ifndef SFS_DISK_DIR_H
#define SFS_DISK_DIR_H

#include <sys/queue.h>
#include <uthash.h>
#include "fs/base/env.h"
#include "fs/disk/backend.h"
#include "fs/disk/label_format.h"

struct sfs_dir_slab;
struct sfs_dir_meta;
TAILQ_HEAD(sfs_dir_slab_lru, sfs_dir_slab);
LIST_HEAD(sfs_dir_meta_list, sfs_dir_meta);

struct sfs_dir {
    struct sfs_backend b;
    int top_fd, lock_fd, slabs_fd, catalog_fd; /* top: .spacesfs */
    uint64_t dev, ino;                         /* of .spacesfs */

    /* dir_slabs.c. sync_m is held across the syncs, so that an error that the kernel reports to one caller
     * alone is seen by all. */
    struct sfs_mutex sync_m;     /* SFS_RANK_DISKMETA */
    struct sfs_mutex slabs_m;    /* SFS_RANK_LEAF: all below */
    struct sfs_dir_slab *slabs;  /* open slab files by slot */
    struct sfs_dir_slab_lru lru; /* the same; least recently used first */
    unsigned nslabs;
    bool slab_names_dirty;
    int sync_rc; /* first sync error, final */

    /* dir_meta.c. One of the two is held across I/O, never both. */
    struct sfs_mutex names_m;     /* SFS_RANK_DISKMETA: creating, deleting */
    struct sfs_mutex meta_sync_m; /* SFS_RANK_DISKMETA */
    struct sfs_mutex meta_m;      /* SFS_RANK_LEAF: all below */
    struct sfs_dir_meta_list metas;
    bool meta_names_dirty;
    int meta_sync_rc;
};

/* Opens a regular file without following a link. Not regular: -EUCLEAN. Returns the descriptor. */
int sfs_dir_openat(int dir_fd, const char *name, int flags);

int sfs_dir_write_label(int top_fd, const struct sfs_label *l);
int sfs_dir_lock(int top_fd, const char *path, bool make, int *out, struct sfs_error *err);

void sfs_dir_slabs_init(struct sfs_dir *d);
void sfs_dir_slabs_fini(struct sfs_dir *d);
size_t sfs_dir_read_nowait(struct sfs_backend *b, uint32_t slot, uint64_t off, uint8_t *buf, size_t len);
int sfs_dir_read(struct sfs_backend *b, uint32_t slot, uint64_t off, uint8_t *buf, size_t len);
int sfs_dir_write(struct sfs_backend *b, uint32_t slot, uint64_t off, const uint8_t *buf, size_t len);
int sfs_dir_sync(struct sfs_backend *b, struct sfs_request *rq);
int sfs_dir_slab_alloc(struct sfs_backend *b, uint32_t slot);
int sfs_dir_slab_free(struct sfs_backend *b, uint32_t slot);
int sfs_dir_slab_list(struct sfs_backend *b, struct sfs_slot_list *l);
bool sfs_dir_slab_name_ok(const char *name, uint32_t *slot);

void sfs_dir_meta_init(struct sfs_dir *d);
int sfs_dir_meta_scan(struct sfs_dir *d); /* reads the catalog directory */
void sfs_dir_meta_fini(struct sfs_dir *d);
int64_t sfs_dir_meta_size(struct sfs_backend *b, const char *name);
int sfs_dir_meta_list(struct sfs_backend *b, struct sfs_meta_entry **out, size_t *n);
size_t sfs_dir_meta_read_nowait(struct sfs_backend *b, const char *name, uint64_t off, uint8_t *buf,
                                size_t len);
int64_t sfs_dir_meta_read(struct sfs_backend *b, const char *name, uint64_t off, uint8_t *buf, size_t len);
int sfs_dir_meta_write(struct sfs_backend *b, const char *name, uint64_t off, const uint8_t *buf, size_t len);
int sfs_dir_meta_truncate(struct sfs_backend *b, const char *name, uint64_t size);
int sfs_dir_meta_sync(struct sfs_backend *b, const char *name);
int sfs_dir_meta_delete(struct sfs_backend *b, const char *name);
int64_t sfs_dir_meta_free_bytes(struct sfs_backend *b, uint32_t slots);

#endif
