/* Inside fs/disk only: what a backend (dir, image, sim) implements. disk.c has checked state, range and names
 * before it calls; all calls but those marked (direct) run on the disk's worker threads, several at once.
 * Each returns 0 (or a count) or a negative errno and knows nothing of states, counters and time-outs.
 * -ENODEV: the disk is not there any more. */
#ifndef SFS_DISK_BACKEND_H
#define SFS_DISK_BACKEND_H

#include <sys/types.h>
#include "fs/disk/disk.h"

struct sfs_backend;
struct sfs_request;

/* A list that a backend fills on a worker and disk.c hands out on the caller's thread. */
struct sfs_slot_list {
    uint32_t *slots;
    size_t n, cap;
};
struct sfs_meta_entry {
    char name[32];
    uint64_t size;
};
int sfs_slot_list_add(struct sfs_slot_list *l, uint32_t slot); /* 0 or -ENOMEM */

struct sfs_backend_ops {
    /* (direct) Gives up the lock, at close: the disk may be opened again although a stuck worker still has
     * it. Never blocks. */
    void (*release)(struct sfs_backend *b);
    /* Last call, by whoever is last: the owner or a stuck worker that came back. */
    void (*destroy)(struct sfs_backend *b);
    /* (direct) May be NULL. Makes requests that would never end come back with an error: sim only, the kernel
     * has no such thing. */
    void (*cancel)(struct sfs_backend *b);

    /* Is it still what and where it was? 0, or -ENODEV with the reason in why. */
    int (*check)(struct sfs_backend *b, char *why, size_t why_bytes);
    int (*label_write)(struct sfs_backend *b, const uint8_t *bytes);
    /* (direct) Prepares for that many slots, more than there are; changes capacity and layout in *l, which is
     * written next. -ENOSPC with words when there is no room for them. */
    int (*grow)(struct sfs_backend *b, uint64_t slabs, struct sfs_label *l, struct sfs_error *err);
    /* Before a close of a disk that is in good order. May be NULL. */
    int (*settle)(struct sfs_backend *b);

    /* (direct) May be NULL. Reads what is in memory without blocking: bytes read, never an error. */
    size_t (*read_nowait)(struct sfs_backend *b, uint32_t slot, uint64_t off, uint8_t *buf, size_t len);
    int (*read)(struct sfs_backend *b, uint32_t slot, uint64_t off, uint8_t *buf, size_t len);
    int (*write)(struct sfs_backend *b, uint32_t slot, uint64_t off, const uint8_t *buf, size_t len);
    /* Calls sfs_request_alive(rq) whenever a part is done. */
    int (*sync)(struct sfs_backend *b, struct sfs_request *rq);
    int (*slab_alloc)(struct sfs_backend *b, uint32_t slot);
    int (*slab_free)(struct sfs_backend *b, uint32_t slot);
    bool (*slot_claimed)(struct sfs_backend *b, uint32_t slot); /* (direct) */
    int (*slab_list)(struct sfs_backend *b, struct sfs_slot_list *l);

    int64_t (*meta_size)(struct sfs_backend *b, const char *name); /* (direct) */
    /* (direct) Fills names and sizes; -ENOMEM or 0. Free(*out). */
    int (*meta_list)(struct sfs_backend *b, struct sfs_meta_entry **out, size_t *n);
    /* (direct) As read_nowait. */
    size_t (*meta_read_nowait)(struct sfs_backend *b, const char *name, uint64_t off, uint8_t *buf,
                               size_t len);
    int64_t (*meta_read)(struct sfs_backend *b, const char *name, uint64_t off, uint8_t *buf, size_t len);
    int (*meta_write)(struct sfs_backend *b, const char *name, uint64_t off, const uint8_t *buf, size_t len);
    int (*meta_truncate)(struct sfs_backend *b, const char *name, uint64_t size);
    int (*meta_sync)(struct sfs_backend *b, const char *name);
    int (*meta_delete)(struct sfs_backend *b, const char *name);
    int64_t (*meta_free_bytes)(struct sfs_backend *b, uint32_t slots);
};

/* What every backend's own struct begins with. Constant once open. */
struct sfs_backend {
    const struct sfs_backend_ops *ops;
    struct sfs_env *env;
    enum sfs_disk_kind kind;
    enum sfs_media media;
    bool readonly;
    bool end_lost; /* sfs_disk_end_lost */
    char *path;
    uint64_t slab_bytes;
    uint32_t capacity_slabs; /* atomic: it may grow */
    uint64_t host_dev; /* dir: the filesystem that it lies on */
    int64_t (*claim)(void *ctx); /* a slot for the metadata area, or -ENOSPC; call with no lock held */
    void *claim_ctx;
};
static inline uint32_t sfs_backend_slots(const struct sfs_backend *b)
{
    return __atomic_load_n(&b->capacity_slabs, __ATOMIC_ACQUIRE);
}
int sfs_backend_init(struct sfs_backend *b, const struct sfs_backend_ops *ops, struct sfs_env *env,
                     const char *path, bool readonly);
void sfs_backend_set_label(struct sfs_backend *b, const struct sfs_label *l);
void sfs_backend_fini(struct sfs_backend *b);

/* Opening and formatting, one set a kind. *label gets what was read (assume: is what counts, see struct sfs_disk_opts);
 * open mends a damaged copy unless readonly. */
int sfs_dir_open(struct sfs_env *env, const char *path, bool readonly, bool assume, struct sfs_label *label,
                 struct sfs_backend **out, struct sfs_error *err);
int sfs_dir_format(struct sfs_env *env, const char *path, uint64_t want_bytes, bool force,
                   struct sfs_label *label, struct sfs_error *err);
int sfs_dir_wipe(const char *path, const struct sfs_uuid *pool, struct sfs_error *err);
int sfs_image_open(struct sfs_env *env, const char *path, bool readonly, bool assume, struct sfs_label *label,
                   struct sfs_backend **out, struct sfs_error *err);
int sfs_image_format(struct sfs_env *env, const char *path, uint64_t want_bytes, bool force,
                     struct sfs_label *label, struct sfs_error *err);
int sfs_image_wipe(struct sfs_env *env, const char *path, const struct sfs_uuid *pool, struct sfs_error *err);
int sfs_sim_open(struct sfs_sim_world *w, const char *path, bool readonly, bool assume, struct sfs_label *label,
                 struct sfs_backend **out, struct sfs_error *err);
/* Of a label that is to be assumed: rc is what reading the disk's own gave. 0, or -EEXIST with words. */
int sfs_disk_may_assume(const char *path, int rc, struct sfs_error *err);
int sfs_sim_format(struct sfs_sim_world *w, const char *path, uint64_t want_bytes, bool force,
                   struct sfs_label *label, struct sfs_error *err);
int sfs_sim_wipe(struct sfs_sim_world *w, const char *path, const struct sfs_uuid *pool,
                 struct sfs_error *err);
int sfs_sim_probe(struct sfs_sim_world *w, const char *path, struct sfs_disk_probe *out,
                  struct sfs_error *err);
bool sfs_sim_is_path(const char *path);

/* Read without a lock, changing nothing; damage of one copy doesn't show. */
int sfs_dir_read_label(int fd, struct sfs_label *out, bool *stale, struct sfs_error *err);
int sfs_image_read_label(int fd, struct sfs_label *out, bool *stale, struct sfs_error *err);
int sfs_dir_usable_bytes(int fd, uint64_t *out); /* free on the host, less a reserve */

/* Plain file I/O that is whole or an error. */
int sfs_pread_full(int fd, void *buf, size_t len, uint64_t off);     /* short: -EIO */
int64_t sfs_pread_upto(int fd, void *buf, size_t len, uint64_t off); /* short at the end of the file */
int sfs_pwrite_full(int fd, const void *buf, size_t len, uint64_t off);
size_t sfs_pread_nowait(int fd, void *buf, size_t len, uint64_t off); /* bytes had without blocking */

/* probe.c */
enum sfs_media sfs_media_of_device(dev_t dev);
/* Name of a foreign filesystem, partition table or the like on fd; "" for none. 0 or -errno. */
int sfs_probe_signature(int fd, char *out, size_t out_bytes);
/* Does a regular file hold anything but zeros? Holes are skipped, the rest is sampled: the front, the end and places spread evenly in between (all of it, up to 8 MiB). 1 yes, 0 no (or no regular file), -errno. */
int sfs_probe_data(int fd);
/* Size of an open image: regular file or block device. */
int sfs_image_size(int fd, uint64_t *out);

#endif
